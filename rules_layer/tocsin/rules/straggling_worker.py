"""StragglingWorker."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from statistics import median
from typing import Any, ClassVar

from tocsin.model import Outcome, Reason, Verdict
from tocsin.rules._registry import register
from tocsin.rules._rule import (
    HEALTHY,
    UNDECIDED,
    Read,
    Reads,
    Rule,
    State,
    Step,
    not_applicable,
)

_EARLY = 5  # steps of a worker that show how late it is by nature
_INTERVALS = 9  # between steps, of which the median is typical
_MOST_WORKERS = 1000  # followed: a rule's state is limited

Memory = tuple[int, float, float | None, float]
"""Of a worker: early steps seen and the latest of them; when its peers wrote the first step of
those at which it is late now (None: it is not), and how late it was then.
"""


@register
@dataclass(frozen=True)
class StragglingWorker(Rule):
    """A worker falls behind the others.

    A worker's lateness at a step is when it wrote the step, minus the median of when its peers
    did. Fires when that is above ``threshold_seconds``, above ``ratio`` times the typical interval
    between steps, and above twice the worst of its own first five steps, since some workers are
    later by nature (they write more, or write from farther away); and when it stays so: the
    peers have gone on for half as long as it was late at first, and it has not made up a quarter
    of that. An upload that hung once is made up for. In three saved steps in a row.

    It needs the times of at least two workers. Workers that wait for each other at every step
    arrive together however slow one is.

    Parameters
    ----------
    threshold_seconds: least lateness that counts, in seconds, above 0.
    ratio: least lateness that counts, in typical intervals between saved steps, at least 0.

    Example: three workers write every 20 seconds, and from step 50 on one of them needs 30.
    """

    options: ClassVar[Mapping[str, Any]] = {"for_steps": 3}
    causes: ClassVar[str] = (
        "Its machine is slower, hotter or shared, its part of the data is larger, or its data "
        "loader or network holds it up."
    )
    advice: ClassVar[str] = (
        "Compare the worker's processor, memory and network use with its peers', move the job "
        "to other machines, or deal out the data evenly."
    )

    threshold_seconds: float = 10.0
    ratio: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.threshold_seconds < math.inf:
            raise ValueError(
                f"threshold_seconds is {self.threshold_seconds}, but must be a number above 0"
            )
        if not 0 <= self.ratio < math.inf:
            raise ValueError(f"ratio is {self.ratio}, but must be a number of at least 0")

    def reads(self) -> Reads:
        return Reads({"tensors": Read()})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        if len(step.times) < 2:
            return state, not_applicable(Reason.NO_TENSOR, "only one worker")
        now = median(step.times.values())
        intervals = list(state.get("intervals", ()))
        if "now" in state:
            intervals = [*intervals, round(max(0.0, now - state["now"]), 3)][-_INTERVALS:]
        interval = median(intervals or [0.0])
        least = max(self.threshold_seconds, self.ratio * interval)
        workers: dict[str, Memory] = dict(state.get("workers", {}))
        late = []
        for worker, lateness, peers in islice(_lateness(step.times), _MOST_WORKERS):
            before = workers.get(worker, (0, 0.0, None, 0.0))
            workers[worker] = _remembered(before, lateness, peers, least)
            if _stays_behind(workers[worker], lateness, peers):
                late.append((lateness, worker))
        state = {"now": now, "intervals": intervals, "workers": workers}
        if late:
            return state, self._found(*max(late), interval)
        known = any(early >= _EARLY for early, *_ in workers.values())
        behind = any(since is not None for _, _, since, _ in workers.values())
        return state, HEALTHY if known and not behind else UNDECIDED

    def _found(self, lateness: float, worker: str, interval: float) -> Verdict:
        detail = (
            f"{worker} was {lateness:.3g} s behind its peers, "
            f"which write a step every {interval:.3g} s"
        )
        evidence = {"late_seconds": lateness, "interval_seconds": interval}
        return Verdict(Outcome.VIOLATION, Reason.LATE, detail, worker=worker, evidence=evidence)


def _remembered(before: Memory, lateness: float, peers: float, least: float) -> Memory:
    early, worst, since, _ = before
    if early < _EARLY:
        return early + 1, round(max(worst, lateness), 3), None, 0.0
    if lateness <= max(least, 2 * worst):
        return early, worst, None, 0.0
    if since is None:
        return early, worst, round(peers, 3), round(lateness, 3)
    return before


def _stays_behind(memory: Memory, lateness: float, peers: float) -> bool:
    _, _, since, at_first = memory
    gone_on = since is not None and peers - since >= at_first / 2
    return gone_on and lateness >= 0.75 * at_first


def _lateness(times: Mapping[str, float]) -> Iterator[tuple[str, float, float]]:
    """Each worker with how late it is, in seconds, and the median of its peers' times."""
    ordered = sorted(times.values())
    for worker, time in sorted(times.items()):
        own = bisect_left(ordered, time)
        last = len(ordered) - 2  # of the peers, which are the others in order
        low, high = (at + (at >= own) for at in (last // 2, (last + 1) // 2))
        peers = (ordered[low] + ordered[high]) / 2
        yield worker, time - peers, peers

"""StragglingWorker."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from statistics import median
from typing import Annotated, Any, ClassVar

from tocsin.model import Outcome, Reason, Verdict
from tocsin.rules import (
    HEALTHY,
    UNDECIDED,
    Meta,
    Read,
    Reads,
    Rule,
    State,
    Step,
    not_applicable,
    register,
)

_EARLY = 5  # first steps of a worker, which show how late it usually is
_INTERVALS = 9  # between steps, of which the median is typical
_MOST_WORKERS = 1000  # that are followed: a rule's state is limited

Memory = tuple[int, float, float | None, float]
"""The memory of a worker: the number of its early steps, its largest lateness at these, the time at
which its peers wrote the first step of the current delay (None: no delay), and its lateness then.
"""


@register
@dataclass(frozen=True)
class StragglingWorker(Rule):
    """A worker falls behind the others.

    A worker's lateness at a step is the time at which it wrote the step, minus the median time of
    its peers. Fires when the lateness is above ``threshold_seconds``, above ``ratio`` times the
    typical interval between steps, and above twice the worst of its own first five steps, since
    some workers are always later (they write more, or from farther away). The delay must last: the
    peers have gone on for half as long as the worker was late at first, and it has not made up a
    quarter of that, as after an upload that hung once. In three saved steps in a row.

    It needs the times of at least two workers. Workers that wait for each other at every step
    arrive together however slow one is.

    Parameters
    ----------
    threshold_seconds: least lateness that counts, in seconds.
    ratio: least lateness that counts, in typical intervals between saved steps.

    Example: three workers write every 20 seconds, and from step 50 on one of them needs 30.
    """

    options: ClassVar[Mapping[str, Any]] = {"for_steps": 3}
    causes: ClassVar[str] = (
        "Its machine is slower, hotter or shared, its part of the data is larger, or its data "
        "loader or network delays it."
    )
    advice: ClassVar[str] = (
        "Compare the worker's processor, memory and network use with its peers', move the job "
        "to other machines, or distribute the data evenly."
    )

    threshold_seconds: Annotated[float, Meta(gt=0)] = 10.0
    ratio: Annotated[float, Meta(ge=0)] = 1.0

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
            f"{worker} was {lateness:.3g} s later than its peers, "
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
    """Yields each worker, its lateness in seconds, and the median of its peers' times."""
    ordered = sorted(times.values())
    for worker, time in sorted(times.items()):
        own = bisect_left(ordered, time)
        last = len(ordered) - 2  # of the peers, which are the others in order
        low, high = (at + (at >= own) for at in (last // 2, (last + 1) // 2))
        peers = (ordered[low] + ordered[high]) / 2
        yield worker, time - peers, peers

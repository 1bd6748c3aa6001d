from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from statistics import median
from typing import Annotated, Any, ClassVar

from tocsin.model import Outcome, Reason, Verdict
from tocsin.rules import Meta, Read, Reads, Rule, State, Step, register
from tocsin.rules._verdicts import HEALTHY, UNDECIDED, measured, not_applicable

_EARLY = 5  # first steps of a worker, which show its usual delay
_INTERVALS = 9  # intervals between steps, for their median
_MOST_WORKERS = 1000  # more are ignored, so the state stays small

Delays = tuple[int, float, float | None, float]
"""The memory of a worker: the number of its early steps, its largest delay at these, the time at
which its peers wrote the first late step (None: it is not late), and its delay at that step.
"""


@register
@dataclass(frozen=True)
class StragglingWorker(Rule):
    """A worker is slower than the others.

    A worker's delay at a step is the time at which it wrote the step, minus the median time of its
    peers. Fires after three consecutive saved steps in which the delay exceeds
    ``threshold_seconds``, ``ratio`` times the median interval between steps, and twice the largest
    delay in its own first five steps. A single slow upload does not fire: the worker must have made
    up less than a quarter of the delay while its peers continued for half of it. If workers wait
    for each other at every step, they write at the same time however slow one of them is, and the
    rule cannot fire.

    Parameters
    ----------
    threshold_seconds: least delay, in seconds.
    ratio: least delay, as a multiple of the median interval between saved steps.

    Example: three workers write every 20 seconds, and from step 50 on one of them needs 30 seconds.
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
        workers: dict[str, Delays] = dict(state.get("workers", {}))
        late, delays = [], []
        for worker, delay, peers in islice(_delays(step.times), _MOST_WORKERS):
            delays.append(delay)
            before = workers.get(worker, (0, 0.0, None, 0.0))
            workers[worker] = _remembered(before, delay, peers, least)
            if _stays_late(workers[worker], delay, peers):
                late.append((delay, worker))
        state = {"now": now, "intervals": intervals, "workers": workers}
        if late:
            return state, measured(self._found(*max(late), interval), max(late)[0], least)
        known = any(early >= _EARLY for early, *_ in workers.values())
        behind = any(since is not None for _, _, since, _ in workers.values())
        if not known or behind:
            return state, UNDECIDED
        return state, measured(HEALTHY, max(delays, default=0.0), least)

    def _found(self, delay: float, worker: str, interval: float) -> Verdict:
        detail = (
            f"{worker} wrote its step {delay:.3g} s after its peers, "
            f"which write one every {interval:.3g} s"
        )
        evidence = {"late_seconds": delay, "interval_seconds": interval}
        return Verdict(Outcome.VIOLATION, Reason.LATE, detail, worker=worker, evidence=evidence)


def _remembered(before: Delays, delay: float, peers: float, least: float) -> Delays:
    early, worst, since, _ = before
    if early < _EARLY:
        return early + 1, round(max(worst, delay), 3), None, 0.0
    if delay <= max(least, 2 * worst):
        return early, worst, None, 0.0
    if since is None:
        return early, worst, round(peers, 3), round(delay, 3)
    return before


def _stays_late(memory: Delays, delay: float, peers: float) -> bool:
    _, _, since, at_first = memory
    lasts = since is not None and peers - since >= at_first / 2
    return lasts and delay >= 0.75 * at_first


def _delays(times: Mapping[str, float]) -> Iterator[tuple[str, float, float]]:
    """Yield each worker with its delay in seconds and the median time of the others."""
    ordered = sorted(times.values())
    for worker, time in sorted(times.items()):
        own = bisect_left(ordered, time)
        last = len(ordered) - 2  # of the peers, which are the others in order
        low, high = (at + (at >= own) for at in (last // 2, (last + 1) // 2))
        peers = (ordered[low] + ordered[high]) / 2
        yield worker, time - peers, peers

"""Patrol: whatever is due gets a hint, so that nothing depends on a message that was lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

MOST_RUNS = 1000
"""How many runs one patrol sends for; the others are still due a minute later."""

_BATCH = 10  # entries that SQS takes in one call

DueRuns = Callable[[float], Iterable[str]]
"""The runs (URLs) that are due at this moment (seconds since the epoch), longest due first."""

SendHints = Callable[[Sequence[str], float], None]
"""Hints at these runs, at most ten, with this tick. HintsLost."""


class HintsLost(Exception):
    """The queue did not take some hints; their runs stay due."""


def patrol(now: float, due_runs: DueRuns, send_hints: SendHints, most: int = MOST_RUNS) -> int:
    """Sends one hint for each run that is due, up to ``most``; returns how many were sent.

    Raises HintsLost after all were tried, if the queue did not take every one.
    """
    sent, lost = 0, []
    for runs in _batches(islice(due_runs(now), most)):
        try:
            send_hints(runs, now)
            sent += len(runs)
        except HintsLost as error:
            lost.append(str(error))
    if lost:
        raise HintsLost("; ".join(lost))
    return sent


def _batches(runs: Iterable[str]) -> Iterator[tuple[str, ...]]:
    rest = iter(runs)
    while batch := tuple(islice(rest, _BATCH)):
        yield batch

"""Patrol: a message for each item that is due, so that nothing depends on one that was lost."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

_BATCH = 10  # entries that SQS takes in one call

Due = Callable[[float], Iterable[str]]
"""The keys of items that are due at this moment (seconds since the epoch), longest due first."""

Send = Callable[[Sequence[str], float], None]
"""Messages for these, at most ten, at this time. HintsLost."""


class HintsLost(Exception):
    """A queue did not take some messages; their items stay due."""


@dataclass(frozen=True)
class PatrolReport:
    """The number of messages sent, and of items left to the next patrol."""

    sent: int
    left: int


def patrol(
    now: float,
    due: Due,
    senders: Mapping[str, Send],
    *,
    ends: float = math.inf,
    clock: Callable[[], float] = time.time,
) -> PatrolReport:
    """Send one message for each item that is due, until ``ends``; count the rest.

    ``senders`` are by the prefix that an item's key begins with; they get what follows it. Keys
    of other items are ignored. ``now`` and ``ends`` are seconds since the epoch.

    Raises HintsLost after all were tried, if a queue did not take every one.
    """
    sent, left, lost = 0, 0, []
    for prefix, names in _batches(due(now), senders):
        if clock() >= ends:
            left += len(names)
            continue
        try:
            senders[prefix](names, now)
            sent += len(names)
        except HintsLost as error:
            lost.append(str(error))
    if lost:
        raise HintsLost("; ".join(lost))
    return PatrolReport(sent, left)


def _batches(keys: Iterable[str], prefixes: Iterable[str]) -> Iterator[tuple[str, Sequence[str]]]:
    """Up to ten keys of a prefix at a time, without it, in the order in which they come."""
    found: dict[str, list[str]] = {prefix: [] for prefix in prefixes}
    for key in keys:
        for prefix, names in found.items():
            if key.startswith(prefix):
                names.append(key.removeprefix(prefix))
                if len(names) == _BATCH:
                    found[prefix] = []
                    yield prefix, names
                break
    yield from ((prefix, names) for prefix, names in found.items() if names)

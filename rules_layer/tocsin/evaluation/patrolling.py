"""Patrol: a message for each item that is due, so that nothing depends on one that was lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice

MOST = 1000
"""For how many items one patrol sends; the others are still due a minute later."""

_BATCH = 10  # entries that SQS takes in one call

Due = Callable[[float], Iterable[str]]
"""The keys of items that are due at this moment (seconds since the epoch), longest due first."""

Send = Callable[[Sequence[str], float], None]
"""Messages for these, at most ten, at this time. HintsLost."""


class HintsLost(Exception):
    """A queue did not take some messages; their items stay due."""


def patrol(now: float, due: Due, senders: Mapping[str, Send], most: int = MOST) -> int:
    """Sends one message for each item that is due, up to ``most``; returns how many were sent.

    ``senders`` are by the prefix that an item's key begins with; they get what follows it. Keys
    of other items are ignored.

    Raises HintsLost after all were tried, if a queue did not take every one.
    """
    sent, lost = 0, []
    for prefix, names in _sorted(due(now), senders, most).items():
        for batch in _batches(names):
            try:
                senders[prefix](batch, now)
                sent += len(batch)
            except HintsLost as error:
                lost.append(str(error))
    if lost:
        raise HintsLost("; ".join(lost))
    return sent


def _sorted(keys: Iterable[str], prefixes: Iterable[str], most: int) -> dict[str, list[str]]:
    """The first ``most`` keys that have a prefix, by the prefix and without it."""
    found: dict[str, list[str]] = {prefix: [] for prefix in prefixes}
    known = ((prefix, key) for key in keys for prefix in found if key.startswith(prefix))
    for prefix, key in islice(known, most):
        found[prefix].append(key.removeprefix(prefix))
    return found


def _batches(names: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(names), _BATCH):
        yield names[start : start + _BATCH]

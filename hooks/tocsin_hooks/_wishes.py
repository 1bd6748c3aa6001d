"""What the rules of a watch file want of the tensors that there are."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from tocsin.tensors import BadPattern, search

from tocsin_hooks._plan import Saved, Wish

if TYPE_CHECKING:  # the rules are loaded by the first hook that is made, not by an import
    from tocsin.rules import Read
    from tocsin.watch import Watch, Watched

_log = logging.getLogger("tocsin")
_MOST_FAILURES = 3  # a machine that is busy makes any pattern slow, once
_failures = Counter[str]()

_UPDATES = frozenset({"update_l1", "update_l2"})


class Wishes:
    """Answers what rules want of a tensor."""

    def __init__(self, watch: Watch | None) -> None:
        from tocsin.watch import Watch, resolve

        self._watched = resolve(watch or Watch())[0]

    def of(self, saved: Saved) -> tuple[Wish, bool]:
        """What is wanted of it once it is captured, and whether a rule asks for it to be.

        A rule that looks at whatever there is asks for nothing in particular.
        """
        reads = wanting(self._watched, saved)
        return _wish(reads), any(_is_particular(read) for read in reads)


def wanting(rules: Sequence[Watched], saved: Saved) -> list[Read]:
    """The reads that select a tensor, as evaluation will do it."""
    return [
        read
        for rule in rules
        if _passes(rule, saved.name)
        for read in rule.reads.tensors.values()
        if selects(read, saved)
    ]


def selects(read: Read, saved: Saved) -> bool:
    """Whether a read wants a tensor."""
    if read.collections or read.regex:
        return not set(read.collections).isdisjoint((*saved.collections, "all")) or matches(
            read.regex, saved.name
        )
    role, kind = saved.place
    return (not read.roles or role in read.roles) and (not read.kinds or kind in read.kinds)


def _wish(reads: Collection[Read]) -> Wish:
    return Wish(
        tuple(dict.fromkeys(read.detail for read in reads if read.detail is not None)),
        update=any(not _UPDATES.isdisjoint(read.fields) for read in reads),
        values=any(read.values for read in reads),
        fingerprint=any("fingerprint" in read.fields for read in reads),
    )


def _is_particular(read: Read) -> bool:
    return bool(read.roles or read.kinds or read.collections or read.regex)


def _passes(rule: Watched, name: str) -> bool:
    include, exclude = rule.options.include, rule.options.exclude
    return (not include or matches(include, name)) and not matches(exclude, name)


def matches(patterns: Iterable[str], name: str) -> bool:
    """Whether one of the patterns is found in a name; one that fails again and again is left out.

    It is the training that waits for a slow one, for every new name.
    """
    return any(_found(pattern, name) for pattern in patterns)


def _found(pattern: str, name: str) -> bool:
    if _failures[pattern] >= _MOST_FAILURES:
        return False
    try:
        return search(pattern, name)
    except BadPattern as error:
        _failures[pattern] += 1
        if _failures[pattern] == _MOST_FAILURES:
            _log.warning("passing over a pattern: %s", error)
        return False

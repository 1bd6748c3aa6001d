"""The wishes of the rules of a watch file: what a tensor is captured with."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from tocsin.rules import TRAINING, Read
from tocsin.watch import PatternMatcher, Watch, Watched, reads_of, resolve

from tocsin_hooks.plan import Saved, Wish

_UPDATES = frozenset({"update_l1", "update_l2"})


class Wishes:
    """Says what rules want of a tensor. ``alone``: the run has a single worker."""

    def __init__(self, watch: Watch | None, matcher: PatternMatcher, *, alone: bool) -> None:
        self._watched = resolve(watch or Watch(), TRAINING)[0]
        self._matcher = matcher
        self._alone = alone

    def of(self, saved: Saved) -> tuple[Wish, bool]:
        """Return the wish for a tensor that is captured, and whether a rule asks for it to be.

        A rule that looks at whatever there is asks for nothing in particular.
        """
        reads = [*wanting(self._watched, saved, self._matcher, alone=self._alone)]
        return _wish(reads), any(_is_particular(read) for read in reads)


def wanting(
    rules: Sequence[Watched], saved: Saved, matcher: PatternMatcher, *, alone: bool = False
) -> Iterator[Read]:
    """Yield the reads that select a tensor, by all rules."""
    for rule in rules:
        for _, read in reads_of(rule, saved, matcher, alone=alone):
            yield read


def _wish(reads: Collection[Read]) -> Wish:
    return Wish(
        tuple(dict.fromkeys(read.detail for read in reads if read.detail is not None)),
        update=any(not _UPDATES.isdisjoint(read.fields) for read in reads),
        values=any(read.values for read in reads),
        fingerprint=any("fingerprint" in read.fields for read in reads),
    )


def _is_particular(read: Read) -> bool:
    return bool(read.roles or read.kinds or read.collections or read.regex)

"""What rules want of a tensor beyond its plain summary."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tocsin.model import Detail, Role
from tocsin.rules import Read
from tocsin.tensors import BadPattern, collected, named, search
from tocsin.watch import Watch, Watched, resolve

_UPDATES = frozenset({"update_l1", "update_l2"})


@dataclass(frozen=True)
class Saved:
    """A tensor as a script names it, with what its name tells of its role and kind."""

    name: str
    collections: tuple[str, ...]
    role: Role | None = None
    kind: str | None = None

    @property
    def place(self) -> tuple[Role | None, str | None]:
        """Role and kind, as given, by the collections, or by the name."""
        told = [found for each in self.collections if (found := collected(each))]
        if by_name := named(self.name):
            told.append(by_name)
        role = self.role or next((of for of, _ in told), None)
        return role, self.kind or next((kind for of, kind in told if of is role and kind), None)


@dataclass(frozen=True)
class Wish:
    """``details`` and the ``update`` for its summary, and whether its ``values`` are wanted."""

    details: tuple[Detail, ...] = ()
    update: bool = False
    values: bool = False


class Wishes:
    """Answers once per tensor what the rules of a watch file want of it."""

    def __init__(self, watch: Watch | None) -> None:
        self._watched = resolve(watch or Watch())[0]
        self._known: dict[Saved, Wish] = {}

    def of(self, saved: Saved) -> Wish:
        if saved not in self._known:
            self._known[saved] = _wish(wanting(self._watched, saved))
        return self._known[saved]


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
        return not set(read.collections).isdisjoint((*saved.collections, "all")) or _matches(
            read.regex, saved.name
        )
    role, kind = saved.place
    return (not read.roles or role in read.roles) and (not read.kinds or kind in read.kinds)


def _wish(reads: Collection[Read]) -> Wish:
    return Wish(
        tuple(dict.fromkeys(read.detail for read in reads if read.detail is not None)),
        any(not _UPDATES.isdisjoint(read.fields) for read in reads),
        any(read.values for read in reads),
    )


def _passes(rule: Watched, name: str) -> bool:
    include, exclude = rule.options.include, rule.options.exclude
    return (not include or _matches(include, name)) and not _matches(exclude, name)


def _matches(patterns: Sequence[str], name: str) -> bool:
    try:
        return any(search(pattern, name) for pattern in patterns)
    except BadPattern:
        return False

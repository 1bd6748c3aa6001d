"""The tensors of a step that each rule gets: the same at steps with the same tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

from tocsin.model import Detail, Role
from tocsin.rules import Read
from tocsin.watch.watched import Watched

UPDATE_FIELDS = frozenset({"update_l1", "update_l2"})  # of the difference to the last save


@dataclass(frozen=True)
class Chosen:
    """The reads that select a tensor, and all that they need of it.

    ``reads``: rule, name of the read, read.
    ``depth``: how many earlier saves of the tensor.
    ``role``, ``kind``: the tensor's.
    """

    reads: tuple[tuple[Watched, str, Read], ...]
    fields: frozenset[str]
    details: tuple[Detail, ...]
    values: bool
    depth: int
    role: Role | None
    kind: str | None

    @cached_property
    def updates(self) -> frozenset[str]:
        """The fields of the difference to the last save that the reads need."""
        return self.fields & UPDATE_FIELDS

    @cached_property
    def own(self) -> frozenset[str]:
        """The other fields that the reads need."""
        return self.fields - UPDATE_FIELDS


@dataclass(frozen=True)
class Group:
    """Tensors that a read gets together: ``places`` in ``Arrangement.shown``.

    values: the read asks for values.
    """

    places: tuple[int, ...]
    values: bool


@dataclass(frozen=True)
class Arrangement:
    """The reads of all rules, by the places of tensors.

    shown: the place of a tensor in the step, and a read that asks for this much of it.
    groups: the tensors that reads get.
    views: the names of rules that see the same, and the number of the group by read.
    empty: the names of rules that see nothing, and no tensor by read.
    """

    shown: tuple[tuple[int, Read], ...]
    groups: tuple[Group, ...]
    views: tuple[tuple[tuple[str, ...], Mapping[str, int]], ...]
    empty: tuple[tuple[tuple[str, ...], Mapping[str, tuple[()]]], ...]


def arranged(watched: Iterable[Watched], chosen: Sequence[Chosen]) -> Arrangement:
    """Arrange tensors, given by the reads that select each of them."""
    shown: dict[tuple[int, int, bool, Detail | None], tuple[int, tuple[int, Read]]] = {}
    reads: dict[tuple[str, str], list[int]] = {}
    for at, each in enumerate(chosen):
        for rule, name, read in each.reads:
            asked = (at, read.back, read.values, read.detail)
            place, _ = shown.setdefault(asked, (len(shown), (at, read)))
            reads.setdefault((rule.name, name), []).append(place)
    groups: dict[Group, int] = {}
    views: dict[tuple[tuple[str, int], ...], list[str]] = {}
    empty: dict[tuple[str, ...], list[str]] = {}
    for rule in watched:
        if not any((rule.name, name) in reads for name in rule.reads.tensors):
            empty.setdefault(tuple(rule.reads.tensors), []).append(rule.name)
            continue
        view = tuple(
            (name, groups.setdefault(Group(tuple(found), read.values), len(groups)))
            for name, read in rule.reads.tensors.items()
            for found in (reads.get((rule.name, name), ()),)
        )
        views.setdefault(view, []).append(rule.name)
    return Arrangement(
        tuple(of_tensor for _, of_tensor in shown.values()),
        tuple(groups),
        tuple((tuple(rules), dict(view)) for view, rules in views.items()),
        tuple(
            (tuple(rules), MappingProxyType(dict.fromkeys(names, ())))
            for names, rules in empty.items()
        ),
    )

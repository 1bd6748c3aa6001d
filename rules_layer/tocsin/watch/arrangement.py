"""The tensors of a step that each rule gets: the same at steps with the same tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tocsin.model import Detail, Role
from tocsin.rules import Read
from tocsin.watch.watched import Watched


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
    """

    shown: tuple[tuple[int, Read], ...]
    groups: tuple[Group, ...]
    views: tuple[tuple[tuple[str, ...], Mapping[str, int]], ...]


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
    for rule in watched:
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
    )

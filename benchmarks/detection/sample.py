"""The fixed sample of cases that is trained when none are named, and a small part of it."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from benchmarks.detection.case import Case

GROUPS_OF_A_LOOP = 5
"""Tasks that each loop is sampled with; the plain loop has all."""

TIMES_OF_A_MISTAKE, TIMES_OF_A_VARIANT = 3, 5
"""Groups that each mistake and each variant is sampled in."""

OF_A_SCRIPT = 3
"""Sound cases of each script beside its reference, and faulty ones."""

QUICK_OF_A_LOOP = 5

Item = TypeVar("Item")


def of_tasks(cases: Iterable[Case]) -> list[Case]:
    """Return the sample of the cases of tasks; one more task or mistake changes little of it."""
    by_loop = _by(cases, lambda case: case.loop)
    groups: set[str] = set()
    for loop, found in by_loop.items():
        names = dict.fromkeys(case.group for case in found)
        groups |= set(names if loop == "plain" else _drawn(names, loop, GROUPS_OF_A_LOOP))
    every = [case for found in by_loop.values() for case in found]
    fitting = {case.name for case in every if case.group in groups}
    for name, found in _by((c for c in every if c.name not in fitting), _name).items():
        groups |= {case.group for case in _drawn(found, name, 1, lambda case: case.group)}
    within = [case for case in every if case.group in groups]
    drawn = [case for case in within if case.is_reference]
    changed = (case for case in within if not case.is_reference)
    for name, found in _by(changed, _name).items():
        count = TIMES_OF_A_VARIANT if found[0].healthy else TIMES_OF_A_MISTAKE
        drawn += _drawn(found, name, count, lambda case: case.group)
    return drawn


def of_scripts(cases: Iterable[Case], count: int = OF_A_SCRIPT) -> list[Case]:
    """Return the reference of each script, and some of its sound and of its faulty cases."""
    drawn = []
    for group, found in _by(cases, lambda case: case.group).items():
        drawn += [case for case in found if case.is_reference]
        for healthy in (True, False):
            others = [c for c in found if c.healthy == healthy and not c.is_reference]
            drawn += _drawn(others, group, count, _name)
    return drawn


def quick(sample: Iterable[Case]) -> list[Case]:
    """Return about sixty cases of a sample: a few of one group of each loop."""
    drawn = []
    for loop, found in _by(sample, lambda case: case.loop).items():
        groups = _by(found, lambda case: case.group)
        largest = max(groups.values(), key=len)
        plain = [case for case in largest if case.is_reference]
        others = [case for case in largest if not case.is_reference]
        drawn += plain + _drawn(others, loop, QUICK_OF_A_LOOP - 1, _name)
    return drawn


def _name(case: Case) -> str:
    return case.name


def _drawn(
    items: Iterable[Item], key: str, count: int, name: Callable[[Item], object] = str
) -> list[Item]:
    """Return so many items, always the same for a key: those with the smallest digests."""

    def digest(item: Item) -> str:
        return hashlib.sha256(f"{key}|{name(item)}".encode()).hexdigest()

    return sorted(items, key=digest)[:count]


def _by(cases: Iterable[Case], key: Callable[[Case], str]) -> dict[str, Sequence[Case]]:
    found = defaultdict[str, list[Case]](list)
    for case in cases:
        found[key(case)].append(case)
    return dict(found)

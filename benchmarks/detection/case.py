"""A training of the benchmark: what is trained, and whether it is healthy."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.detection.run_hook import RunHook

Train = Callable[[int, RunHook], float]
"""Trains with a seed and gives the skill on held-out data: 1 is perfect, 0 is none."""

SEEDS = (2, 1)
"""Seeds of a healthy case, and of a faulty one: what is healthy is more alike."""

PLAIN = "plain"


@dataclass(frozen=True)
class Case:
    """One way to train a family of models.

    ``causes`` are those that an alarm may rightly name (see causes.py); a healthy case has none.
    A ``certain`` fault harms by construction, whatever the skill says. The skill of all others is
    compared with that of the ``reference``, a case of the same family.
    """

    family: str
    name: str
    train: Train
    causes: frozenset[str] = frozenset()
    certain: bool = False
    reference: str = PLAIN
    seeds: int = 1

    @property
    def healthy(self) -> bool:
        return not self.causes

    @property
    def folder(self) -> str:
        """A folder's name, unique in the benchmark."""
        return "/".join(
            re.sub(r"[^a-z0-9]+", "-", part.lower()) for part in (self.family, self.name)
        )


def cases(
    family: str,
    train: Callable[..., float],
    healthy: Mapping[str, Mapping[str, Any]],
    faulty: Mapping[str, tuple[str, Mapping[str, Any]]],
    certain: tuple[str, ...] = (),
    seeds: tuple[int, int] = SEEDS,
) -> tuple[Case, ...]:
    """The cases of a family: ``train(seed, hook, **options)`` with the options of each.

    The first healthy case is the reference. A faulty one has the causes that name it, as words.
    """
    reference = next(iter(healthy))
    sound = (
        Case(family, name, partial(train, **options), reference=reference, seeds=seeds[0])
        for name, options in healthy.items()
    )
    harmful = (
        Case(
            family,
            name,
            partial(train, **options),
            frozenset(causes.split()),
            name in certain,
            reference,
            seeds[1],
        )
        for name, (causes, options) in faulty.items()
    )
    return (*sound, *harmful)

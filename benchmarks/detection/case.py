"""A training of the benchmark: what is trained, and whether it is healthy."""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.detection.run_hook import RunHook

Train = Callable[[int, RunHook], float]
"""Trains with a seed and returns the skill on held-out data: 1 is perfect, 0 is that of a guess."""

PLAIN = "plain"
SCRIPT = "script"


@dataclass(frozen=True)
class Case:
    """One way to train something; cases of one ``group`` differ in one thing from its reference.

    ``causes`` are those that an alarm may rightly name (see causes.py); a healthy case has none.
    A ``certain`` mistake harms by construction, whatever the skill says. The skill of all others
    is compared with that of the ``reference``, a case of the same group. ``kind`` is the part of
    the training that differs, and ``loop`` what trains it. ``sources`` are the modules and
    functions that do so.
    """

    group: str
    name: str
    train: Train
    causes: frozenset[str] = frozenset()
    certain: bool = False
    reference: str = PLAIN
    kind: str = SCRIPT
    loop: str = SCRIPT
    sources: tuple[Any, ...] = ()

    @property
    def healthy(self) -> bool:
        return not self.causes

    @property
    def is_reference(self) -> bool:
        return self.name == self.reference

    @property
    def folder(self) -> str:
        """A folder's name, unique in the benchmark."""
        return "/".join(
            re.sub(r"[^a-z0-9]+", "-", part.lower()) for part in (self.group, self.name)
        )

    @property
    def digest(self) -> str:
        """The digest of the code that trains it: its runs are outdated once that has changed."""
        text = "".join(inspect.getsource(source) for source in self.sources)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def cases(
    group: str,
    train: Callable[..., float],
    healthy: Mapping[str, Mapping[str, Any]],
    faulty: Mapping[str, tuple[str, Mapping[str, Any]]],
    certain: tuple[str, ...] = (),
) -> tuple[Case, ...]:
    """Return the cases of a script: ``train(seed, hook, **options)`` with the options of each.

    The first healthy case is the reference. A faulty one has the causes that name it, as words.
    """
    reference = next(iter(healthy))
    source = inspect.getmodule(train)
    sound = {name: ("", options) for name, options in healthy.items()}
    return tuple(
        Case(
            group,
            name,
            partial(train, **options),
            frozenset(causes.split()),
            name in certain,
            reference,
            sources=(source,),
        )
        for name, (causes, options) in {**sound, **faulty}.items()
    )

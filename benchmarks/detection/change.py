"""Changes of a training: mistakes, which have causes, and variants, which are sound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import getmodule
from typing import Any

from benchmarks.detection.task import Training

Apply = Callable[[Training], Training]


@dataclass(frozen=True)
class Change:
    """One difference from the plain training of a task.

    ``part`` says what it changes, and so which loops can have it: ``samples``, ``model``, ``loss``,
    ``optimizer``, ``settings``, ``loop``, or a part of one loop alone. The task must have one of
    the traits of each of the ``needs``, and none of those in ``without``. ``causes`` are words of
    causes.py that an alarm may rightly name. A ``certain`` mistake harms whatever the skill says.
    ``source`` is the code that it consists of.
    """

    name: str
    apply: Apply
    part: str
    needs: tuple[frozenset[str], ...] = ()
    without: frozenset[str] = frozenset()
    causes: frozenset[str] = frozenset()
    certain: bool = False
    source: Any = None

    def fits(self, traits: frozenset[str]) -> bool:
        return all(traits & each for each in self.needs) and not traits & self.without


CHANGES: dict[str, Change] = {}
"""Every change by its name; the decorators add to it when their module is imported."""


def mistake(
    part: str, causes: str, needs: str = "", without: str = "", certain: bool = False
) -> Callable[[Apply], Apply]:
    """Register a function as a mistake. ``needs`` is words such as ``"classes|binary joined"``."""

    def register(apply: Apply) -> Apply:
        name = apply.__name__.replace("_", " ")
        assert name not in CHANGES, name
        wanted = tuple(frozenset(word.split("|")) for word in needs.split())
        words, banned = frozenset(causes.split()), frozenset(without.split())
        # the source of a lambda does not say what it holds, its module does
        source = getmodule(apply) if "<lambda>" in apply.__qualname__ else apply
        CHANGES[name] = Change(name, apply, part, wanted, banned, words, certain, source)
        return apply

    return register


def variant(part: str, needs: str = "", without: str = "") -> Callable[[Apply], Apply]:
    """Register a function as a sound variant."""
    return mistake(part, "", needs, without)

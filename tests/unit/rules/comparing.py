"""Steps with comparisons of a loss with its re-paired losses, for the tests of rules on skill."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from tocsin.model import Mode, Role
from tocsin.rules import Step

from tests.unit.rules.judging import valued


def comparisons(
    skills: Iterable[float],
    every: int = 10,
    *,
    site: str = "CrossEntropyLoss_0",
    mode: Mode = Mode.TRAIN,
    loss: float = 2.0,
    constant: float = 2.0,
    samples: int = 32,
    scale: float = 1.0,
    kind: str = "cross_entropy",
) -> Iterator[Step]:
    """A save after ``every`` steps, each of which is compared: its skill is as given."""
    known = list(skills)
    for at in range(0, len(known), every):
        here = np.array(known[at : at + every])
        size = len(here)
        columns = [scale * loss * (1 - here), np.full(size, scale * loss)]
        columns += [np.full(size, scale * constant), np.full(size, float(samples))]
        value = np.stack(columns, axis=1)
        tensor = valued(f"{site}/skill", value, role=Role.SKILL, kind=kind)
        step = at + size
        yield Step(step, mode, step, float(step), {"skills": (tensor,)})


def noisy(
    skill: Iterable[float] | float, steps: int = 0, noise: float = 0.05, seed: int = 0
) -> list[float]:
    """Skills with noise, either of so many steps or of a whole course."""
    course = np.full(steps, skill) if isinstance(skill, float) else np.array(list(skill))
    random = np.random.default_rng(seed)
    return np.clip(course + noise * random.normal(size=len(course)), -1, 1).tolist()

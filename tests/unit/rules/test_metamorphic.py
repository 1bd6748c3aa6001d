"""Changes of a training that change no verdict of profile ``recommended``.

The scale of losses and targets, names, the order of layers, and how often steps are saved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray
from tocsin.model import Mode, Outcome, Role
from tocsin.rules import RECOMMENDED, Rule, Step, Tensor, build, rule_names
from tocsin.tensors import update_norms

from tests.unit.rules.judging import fired, judged, valued

STEPS = 800
EVERY = 10
KINDS = ("healthy", "shuffled", "slow", "jumps", "diverges")
Save = tuple[int, tuple[Tensor, ...]]


@cache
def training(kind: str, every: int = EVERY, unit: float = 1.0) -> tuple[Save, ...]:
    """The saves of a linear regression by gradient descent on targets in this unit.

    In another unit the last weights are as much larger, and the rate of the first ones is such
    that they take the same course.
    """
    random = np.random.default_rng(3)
    truth = random.normal(size=(6, 1))
    weight, first = 0.1 * unit * random.normal(size=(6, 1)), np.eye(6)
    saves: list[Save] = []
    before, rows = (first, weight), []
    for at in range(STEPS):
        late = at > STEPS / 2
        rates = {"jumps": 1.5 if late else 0.1, "slow": 1e-9, "diverges": 1.2}
        rate = rates.get(kind, 0.1)
        x = random.normal(size=(32, 6))
        y = unit * (x @ truth + 0.1 * random.normal(size=(32, 1)))
        if kind == "shuffled":
            y = random.permutation(y)
        error = x @ first @ weight - y
        loss = float((error**2).mean())
        repaired = np.mean([((error + y - np.roll(y, by, 0)) ** 2).mean() for by in (1, 2, 3)])
        rows.append((loss, float(repaired), float((y**2).mean()), 32.0))
        gradient = 2 * first.T @ x.T @ error / 32
        inner = 2 * x.T @ error @ weight.T / 32
        clip = 1e4 / max(1e4, float(np.linalg.norm(gradient)) / unit)
        weight = np.clip(weight - rate * clip * gradient, -1e8 * unit, 1e8 * unit)
        first = np.clip(first - 0.1 * rate * clip * inner / unit**2, -1e3, 1e3)
        if at % every:
            continue
        saves.append((at, (
            *parameters((first, weight), before),
            valued("gradient/first.weight", inner, role=Role.GRADIENT),
            valued("gradient/last.weight", gradient, role=Role.GRADIENT),
            valued("loss", loss, role=Role.LOSS),
            valued("mse/skill", np.array(rows), role=Role.SKILL, kind="mse_loss"),
            valued("learning_rate", rate, role=Role.LEARNING_RATE),
        )))  # fmt: skip
        before, rows = (first, weight), []
    return tuple(saves)


def parameters(
    now: tuple[NDArray[np.float64], ...], before: tuple[NDArray[np.float64], ...]
) -> Iterator[Tensor]:
    """The weights, with their updates since the last save."""
    for name, value, earlier in zip(("first", "last"), now, before, strict=True):
        tensor = valued(f"{name}.weight", value, role=Role.WEIGHT)
        l1, l2 = update_norms(value, earlier)
        summary = msgspec.structs.replace(tensor.summary, update_l1=l1, update_l2=l2)
        last = valued(f"{name}.weight", earlier, role=Role.WEIGHT)
        yield replace(tensor, summary=summary, previous=(last,))


def each_tensor(saves: tuple[Save, ...], change: Callable[[Tensor], Tensor]) -> tuple[Save, ...]:
    return tuple((at, tuple(map(change, tensors))) for at, tensors in saves)


def scaled(scale: float) -> Callable[[Tensor], Tensor]:
    """The loss times a number, and all that follows from it."""

    def change(tensor: Tensor) -> Tensor:
        assert tensor.value is not None
        value = tensor.value * scale
        if tensor.role is Role.SKILL:
            value = tensor.value * [scale, scale, scale, 1]
        elif tensor.role not in (Role.LOSS, Role.GRADIENT):
            return tensor
        return valued(tensor.name, value, role=tensor.role, kind=tensor.kind)

    return change


def renamed(tensor: Tensor) -> Tensor:
    """The layers change places, and all names are others."""
    name = tensor.name.replace("first", "z9.proj").replace("last", "a1.proj")
    named = replace(tensor, name={"loss": "objective"}.get(name, name))
    return replace(named, previous=tuple(map(renamed, named.previous)))


CHANGES: dict[str, Callable[[str], tuple[Save, ...]]] = {
    "loss x 1e-6": lambda kind: each_tensor(training(kind), scaled(1e-6)),
    "loss x 1e6": lambda kind: each_tensor(training(kind), scaled(1e6)),
    "targets x 1024": lambda kind: training(kind, unit=2**10),
    "other names": lambda kind: each_tensor(training(kind), renamed),
}


def steps(rule: Rule, saves: tuple[Save, ...]) -> Iterator[Step]:
    reads = rule.reads().tensors
    for at, tensors in saves:
        ordered = sorted(tensors, key=lambda tensor: tensor.name)
        found = {
            name: tuple(t for t in ordered if t.role in read.roles) for name, read in reads.items()
        }
        yield Step(at, Mode.TRAIN, at, float(at), found, times={"worker_0": at})


def outcomes(saves: tuple[Save, ...]) -> dict[str, list[Outcome]]:
    """The outcomes of all rules at all saves."""
    rules = {name: build(name, {})[0] for name in rule_names(RECOMMENDED)}
    return {
        name: [verdict.outcome for verdict in judged(rule, steps(rule, saves))]
        for name, rule in rules.items()
    }


plain = cache(lambda kind: outcomes(training(kind)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", CHANGES)
def test_verdicts_stay_the_same(change: str, kind: str) -> None:
    assert outcomes(CHANGES[change](kind)) == plain(kind)


def found(every: int, kind: str) -> set[str]:
    """The rules that find what is wrong, by what the whole run shows."""
    watching = ("LossWorse", "NoSkill", "SkillLost", "UpdateTooSmall")
    saves = training(kind, every)
    rules = {name: build(name, {})[0] for name in watching}
    return {name for name, rule in rules.items() if fired(judged(rule, steps(rule, saves)))}


@pytest.mark.parametrize("every", [5, EVERY, 20])
@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("healthy", set()),
        ("shuffled", {"NoSkill"}),
        ("slow", {"NoSkill", "UpdateTooSmall"}),
        ("jumps", {"LossWorse", "SkillLost"}),
    ],
)
def test_the_same_is_found_however_often_steps_are_saved(
    every: int, kind: str, expected: set[str]
) -> None:
    assert found(every, kind) == expected

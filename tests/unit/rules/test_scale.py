"""The scale of the loss changes no verdict of profile ``recommended``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray
from tocsin.model import Mode, Role
from tocsin.rules import RECOMMENDED, Rule, Step, Tensor, build, rule_names
from tocsin.tensors import update_norms

from tests.unit.rules.judging import fired, judged, valued

SAVES = 120
EVERY = 10


@cache
def training(kind: str) -> tuple[tuple[Tensor, ...], ...]:
    """The tensors of each save of a linear regression by gradient descent."""
    random = np.random.default_rng(3)
    truth = random.normal(size=(6, 1))
    weight, first = 0.1 * random.normal(size=(6, 1)), np.eye(6)
    saves, before = [], (first, weight)
    for at in range(SAVES):
        late = at > SAVES / 2
        rate = {"jumps": 1.5 if late else 0.1, "slow": 1e-9}.get(kind, 0.1)
        rows: list[tuple[float, float, float, float]] = []
        for _ in range(EVERY):
            x = random.normal(size=(32, 6))
            y = x @ truth + 0.1 * random.normal(size=(32, 1))
            if kind == "shuffled":
                y = random.permutation(y)
            error = x @ first @ weight - y
            loss = float((error**2).mean())
            repaired = np.mean([((error + y - np.roll(y, by, 0)) ** 2).mean() for by in (1, 2, 3)])
            rows.append((loss, float(repaired), float((y**2).mean()), 32.0))
            gradient = 2 * first.T @ x.T @ error / 32
            inner = 2 * x.T @ error @ weight.T / 32
            clip = 1e4 / max(1e4, float(np.linalg.norm(gradient)))
            weight, first = weight - rate * clip * gradient, first - 0.1 * rate * clip * inner
            weight, first = np.clip(weight, -1e8, 1e8), np.clip(first, -1e3, 1e3)
        saves.append((
            *parameters((first, weight), before),
            valued("gradient/first.weight", inner, role=Role.GRADIENT),
            valued("gradient/last.weight", gradient, role=Role.GRADIENT),
            valued("loss", loss, role=Role.LOSS),
            valued("mse/skill", np.array(rows), role=Role.SKILL, kind="mse_loss"),
            valued("learning_rate", rate, role=Role.LEARNING_RATE),
        ))  # fmt: skip
        before = first, weight
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


def scaled(tensor: Tensor, scale: float) -> Tensor:
    assert tensor.value is not None
    value = tensor.value * scale
    if tensor.role is Role.SKILL:
        value = tensor.value * [scale, scale, scale, 1]
    elif tensor.role not in (Role.LOSS, Role.GRADIENT):
        return tensor
    return valued(tensor.name, value, role=tensor.role, kind=tensor.kind)


def steps(rule: Rule, kind: str, scale: float) -> Iterator[Step]:
    reads = rule.reads().tensors
    for at, tensors in enumerate(training(kind)):
        shown = [scaled(tensor, scale) for tensor in tensors]
        found = {
            name: tuple(t for t in shown if t.role in read.roles) for name, read in reads.items()
        }
        yield Step(EVERY * at, Mode.TRAIN, EVERY * at, float(at), found, times={"worker_0": at})


@pytest.mark.parametrize("kind", ["healthy", "shuffled", "slow", "jumps"])
@pytest.mark.parametrize("name", rule_names(RECOMMENDED))
def test_the_scale_of_the_loss_changes_no_verdict(name: str, kind: str) -> None:
    rule, _ = build(name, {})
    plain = [verdict.outcome for verdict in judged(rule, steps(rule, kind, 1.0))]
    for scale in (1e-6, 1e6):
        assert [verdict.outcome for verdict in judged(rule, steps(rule, kind, scale))] == plain


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("healthy", set()),
        ("shuffled", {"NoSkill"}),
        ("jumps", {"LossWorse", "SkillLost"}),
    ],
)
def test_which_rules_find_what(kind: str, expected: set[str]) -> None:
    watching = ("GradientExplosion", "LossWorse", "NoSkill", "SkillLost")
    rules = {name: build(name, {})[0] for name in watching}
    found = {name for name, rule in rules.items() if fired(judged(rule, steps(rule, kind, 1.0)))}
    assert found == expected

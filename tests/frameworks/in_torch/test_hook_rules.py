"""Trainings that go wrong, captured with two lines and judged by the rules."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tocsin.evaluation import check
from tocsin.model import RuleStatus
from tocsin.tensors import LocalStorage
from tocsin_hooks.torch import TorchHook
from torch import nn

from tests.frameworks.in_torch.runs import update

STEPS = 40


def healthy() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))


def dead() -> nn.Module:
    """No input lifts a unit above zero."""
    model = healthy()
    nn.init.constant_(model[0].bias, -100.0)
    return model


def vanishing() -> nn.Module:
    layers = [layer for _ in range(14) for layer in (nn.Linear(16, 16), nn.Sigmoid())]
    return nn.Sequential(nn.Linear(8, 16), nn.Sigmoid(), *layers, nn.Linear(16, 3))


def frozen() -> nn.Module:
    """A layer that the optimizer does not know: it gets gradients and never changes."""
    model = healthy()
    model[0].forgotten = True
    return model


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (healthy, set()),
        (dead, {"DeadRelu"}),
        (vanishing, {"VanishingGradient"}),
        (frozen, {"FrozenParameters"}),
    ],
)
def test_rules_find_what_is_wrong(
    build: Callable[[], nn.Module], expected: set[str], run: Path
) -> None:
    model = build()
    parts = [part for part in model.modules() if not getattr(part, "forgotten", False)]
    known = [each for part in parts for each in part.parameters(recurse=False)]
    optimizer = torch.optim.SGD(known, 0.1, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    truth = torch.randn(8, 3)
    with TorchHook.attach(model, run, save_interval=1, max_overhead=1.0) as hook:
        for _ in range(STEPS):
            x = torch.randn(64, 8)
            update(optimizer, criterion(model(x), (x @ truth).argmax(1)))
    assert hook.stats.saved == STEPS
    checkpoint, _ = check(LocalStorage(run))
    found = {
        name for name, each in checkpoint.rules.items() if each.status is RuleStatus.ISSUES_FOUND
    }
    assert found >= expected
    if not expected:
        assert not found

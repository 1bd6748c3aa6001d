"""Models whose weights are frozen as they were drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - everybody calls it so
from tocsin_hooks.torch import TorchHook
from tocsin_hooks.torch.contracts.frozen import is_frozen_at_random
from torch import nn
from transformers import BertConfig, BertForSequenceClassification

from tests.frameworks.in_torch.runs import update
from tests.frameworks.in_torch.test_contracts import ASKED, broken


def layers() -> Any:
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.Linear(64, 4))


def bert() -> Any:
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 128}
    return BertForSequenceClassification(BertConfig(vocab_size=500, num_attention_heads=2, **sizes))


def frozen(model: Any, count: int | None = None) -> Any:
    for each in [*model.parameters()][:count]:
        each.requires_grad_(requires_grad=False)
    return model


def used(model: Any) -> Any:
    """The model after an update."""
    model(torch.randn(64, 32)).square().sum().backward()
    torch.optim.SGD(model.parameters(), 1e-2).step()
    return model


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (lambda: frozen(layers(), -2), True),
        (lambda: frozen(bert(), -2), True),
        (lambda: frozen(layers(), 2), False),  # a third
        (lambda: frozen(layers()), False),  # nothing is trained
        (lambda: frozen(used(layers()), -2), False),
        (layers, False),
        (lambda: frozen(nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 1)), -2), False),  # too few
    ],
)
def test_models(model: Any, expected: bool) -> None:
    torch.manual_seed(0)
    assert is_frozen_at_random(model()) is expected


@pytest.mark.parametrize("loads", [False, True])
def test_a_training(loads: bool, run: Path) -> None:
    torch.manual_seed(0)
    model = layers()
    if loads:
        model.load_state_dict(used(layers()).state_dict())
    frozen(model, -2)
    optimizer = torch.optim.SGD(model[-1].parameters(), 1e-2)
    with TorchHook.attach(model, run, capture=ASKED, save_interval=5, max_overhead=None) as hook:
        for _ in range(30):
            update(optimizer, F.cross_entropy(model(torch.randn(16, 32)), torch.randint(4, (16,))))
        assert hook.stats.errors == 0
    assert ("frozen_random_weights" in broken(run)) is not loads


@pytest.mark.parametrize("thaws", [False, True])
def test_what_an_optimizer_holds_may_thaw(thaws: bool, run: Path) -> None:
    torch.manual_seed(0)
    model = frozen(layers(), -2)
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)
    with TorchHook.attach(model, run, capture=ASKED, save_interval=1, max_overhead=None) as hook:
        for at in range(90):
            if thaws and at == 80:
                model.requires_grad_(requires_grad=True)
            update(optimizer, F.cross_entropy(model(torch.randn(16, 32)), torch.randint(4, (16,))))
        assert hook.stats.errors == 0
    assert ("frozen_random_weights" in broken(run)) is not thaws

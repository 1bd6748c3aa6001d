"""Labels that are all the same number, or of one class."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - everybody calls it so
from tocsin_hooks.torch import TorchHook
from torch import nn

from tests.frameworks.in_torch.runs import contracts, update

SIZE = 64
JUDGE = nn.Linear(1, 1)


def residual(model: Any) -> Any:
    x = torch.randn(SIZE, 8, requires_grad=True)
    found = model(x)
    (slope,) = torch.autograd.grad(found.sum(), x, create_graph=True)
    return F.mse_loss(found + 0 * slope[:, :1], torch.zeros(SIZE, 1))


def two_targets(model: Any) -> Any:
    found = model(torch.randn(SIZE, 8))
    return F.mse_loss(found, torch.ones(SIZE, 1)) + F.mse_loss(found.neg(), torch.zeros(SIZE, 1))


def mostly_zero(model: Any) -> Any:
    x = torch.randn(SIZE, 8)
    return F.mse_loss(model(x), (x[:, :1] > 1.5).float())


CASES: dict[str, tuple[Callable[[Any], Any], bool]] = {
    "cast to integers": (
        lambda m: F.mse_loss(m(x := torch.randn(SIZE, 8)), x[:, :1].sigmoid().long().float()),
        True,
    ),
    "overwritten": (
        lambda m: F.l1_loss(m(torch.randn(SIZE, 8)).squeeze(1), torch.full((SIZE,), 5.3)) * 2,
        True,
    ),
    "one number that is expanded": (
        lambda m: F.mse_loss(m(torch.randn(SIZE, 8)), torch.tensor(0.5).expand(SIZE, 1)),
        False,
    ),
    "of single samples": (lambda m: F.mse_loss(m(torch.randn(1, 8)), torch.zeros(1, 1)), False),
    "mostly zero": (mostly_zero, False),
    "of an equation": (residual, False),
    "beside another loss": (two_targets, False),
    "of an opponent": (
        lambda m: F.mse_loss(JUDGE(m(torch.randn(SIZE, 8))), torch.ones(SIZE, 1)),
        False,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_labels_that_are_one_number(name: str, run: Path) -> None:
    loss, expected = CASES[name]
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    with TorchHook.attach(model, run, save_interval=2, max_overhead=None):
        for _ in range(20):
            update(optimizer, loss(model))
    assert ("targets_identical" in contracts(run)) is expected


@pytest.mark.parametrize(
    ("classes", "label", "expected"),
    [
        (4, lambda x: (x[:, 0] > 0).float().div(255).long(), True),
        (4, lambda x: (x[:, 0] > 2.5).long(), False),  # rare
        (2, lambda x: (x[:, 0] > 9).long(), False),  # of two classes one may be very rare
    ],
)
def test_labels_of_one_class(
    classes: int, label: Callable[[Any], Any], expected: bool, run: Path
) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, classes))
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    with TorchHook.attach(model, run, save_interval=2, max_overhead=None):
        for _ in range(40):
            x = torch.randn(SIZE, 8)
            update(optimizer, F.cross_entropy(model(x), label(x)))
    assert ("labels_identical" in contracts(run)) is expected

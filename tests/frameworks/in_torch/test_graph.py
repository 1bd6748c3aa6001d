"""What the graph of autograd says of a loss."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - everybody calls it so
from tocsin.model import COMPETING, Role
from tocsin_hooks.torch import TorchHook
from tocsin_hooks.torch.graph import is_gap
from torch import nn

from tests.frameworks.in_torch.runs import entries, update


class Energy(nn.Module):
    """A restricted Boltzmann machine's."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(8, 16)
        self.visible = nn.Parameter(torch.zeros(8))

    def forward(self, x: Any) -> Any:
        return -F.softplus(self.hidden(x)).sum(1) - x @ self.visible


LOSSES: dict[str, tuple[Callable[[nn.Module, Any, Any], Any], bool]] = {
    "energies": (lambda m, x, y: m(x).mean() - m(y).mean(), True),
    "beside a penalty": (
        lambda m, x, y: m(x).mean() - m(y).mean() + 0.1 * m(x).square().mean(),
        True,
    ),
    "one energy": (lambda m, x, y: m(x).mean(), False),
    "errors": (lambda m, x, y: (m(x) - m(y)).square().mean(), False),
    "a bonus for what varies": (lambda m, x, y: m(x).square().mean() - 0.1 * m(y).mean(), False),
    "unlike means": (lambda m, x, y: m(x).exp().mean() - m(y).mean(), False),
    "a parameter": (lambda m, x, y: m.visible[0], False),
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_gap_between_means(name: str) -> None:
    loss, expected = LOSSES[name]
    assert is_gap(loss(Energy(), torch.randn(4, 8), torch.randn(4, 8))) is expected


def test_a_loss_without_a_graph_is_no_gap() -> None:
    assert not is_gap(torch.zeros((), requires_grad=True))


def test_energies_have_no_level(run: Path) -> None:
    model = Energy()
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)
    with TorchHook.attach(model, run, save_interval=5, max_overhead=None):
        for _ in range(12):
            update(optimizer, model(torch.randn(16, 8)).mean() - model(torch.zeros(16, 8)).mean())
    assert {each.kind for each in entries(run, Role.LOSS)} == {COMPETING}

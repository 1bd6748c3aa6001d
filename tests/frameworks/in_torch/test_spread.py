"""How much outputs differ from sample to sample."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - everybody calls it so
from tocsin import create_trial
from tocsin_hooks.torch import TorchHook
from tocsin_hooks.torch.capture.spread import spread
from torch import nn

from tests.frameworks.in_torch.runs import update


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (torch.zeros(4, 3), 0.0),
        (torch.full((4, 3), 7.0), 0.0),
        (torch.tensor([[1.0, -2.0], [-1.0, 2.0]]), 1.0),
        (torch.tensor([[3.0], [1.0]]), 0.2),
        (1e-4 * torch.tensor([[3.0], [1.0]]), 0.2),  # without units
        (torch.randn(8, 3, 200, 200), 0.875),  # some of many features
    ],
)
def test_the_share_of_the_mean_square(output: Any, expected: float) -> None:
    assert spread(output).item() == pytest.approx(expected, abs=0.02)


LOSSES: dict[str, tuple[Callable[[Any, Any], Any], bool]] = {
    "embeddings": (lambda p, y: (p @ p.T - torch.eye(16)).square().mean(), True),
    "triplets": (lambda p, y: nn.TripletMarginLoss()(p[:5], p[5:10], p[10:15]), True),
    "similarities": (lambda p, y: F.cross_entropy(p @ p.T, torch.arange(16)), True),
    "classes": (F.cross_entropy, False),
    "classes by a module": (nn.CrossEntropyLoss(), False),
    "log-probabilities": (lambda p, y: F.nll_loss(F.log_softmax(p, 1), y), False),
    "a column": (lambda p, y: F.mse_loss(p[:, 0], y.float()), False),
}


@pytest.mark.parametrize("name", LOSSES)
def test_only_outputs_without_labels_are_captured(name: str, run: Path) -> None:
    loss, expected = LOSSES[name]
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with TorchHook.attach(model, run, save_interval=1, max_overhead=None) as hook:
        for _ in range(2):
            update(optimizer, loss(model(torch.randn(16, 8)), torch.randint(4, (16,))))
        assert hook.stats.errors == 0
    trial = create_trial(str(run))
    found = trial.tensor_names(collection="spreads")
    assert found == (["spread/Sequential_output_0"] if expected else [])
    for each in found:
        assert 0 < trial.tensor(each).value(1) <= 1


class Learner(nn.Module):
    """Compares what its last part gives itself, and gives but its loss."""

    def __init__(self, loss: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8, 16), nn.ReLU())
        self.projector = nn.Linear(16, 4)
        self.teacher = nn.Linear(16, 4).requires_grad_(False)
        self.loss = loss

    def forward(self, x: Any, y: Any) -> Any:
        h = self.encoder(x)
        p = self.projector(h)
        with torch.no_grad():
            self.teacher(h)
        return self.loss(p, y)


@pytest.mark.parametrize("name", LOSSES)
def test_a_model_that_gives_its_loss_alone(name: str, run: Path) -> None:
    loss, expected = LOSSES[name]
    model = Learner(loss)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    hooks = sum(len(each._forward_hooks) for each in model.modules())
    with TorchHook.attach(model, run, save_interval=1, max_overhead=None) as hook:
        for _ in range(3):
            update(optimizer, model(torch.randn(16, 8), torch.randint(4, (16,))))
        assert hook.stats.errors == 0
    assert hooks == sum(len(each._forward_hooks) for each in model.modules())
    trial = create_trial(str(run))
    found = trial.tensor_names(collection="spreads")
    assert found == (["spread/projector_output_0"] if expected else [])
    assert ("projector_output_0" in trial.tensor_names()) is expected
    for each in found:
        assert 0 < trial.tensor(each).value(1) <= 1

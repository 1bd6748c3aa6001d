"""Scripts that call the parts of a model, and not the model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - everybody's name for it
from tocsin import Mode, create_trial
from tocsin_hooks.torch import TorchHook
from torch import nn
from torch._dynamo import utils

from tests.frameworks.in_torch.runs import update


@pytest.fixture(autouse=True)
def _nothing_was_compiled() -> None:
    """In a process in which something was, no window opens where no forward pass is seen."""
    utils.counters.clear()


class Autoencoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8, 4), nn.ReLU())
        self.decoder = nn.Linear(4, 8)

    def loss(self, x: Any) -> Any:
        return ((self.decoder(self.encoder(x)) - x) ** 2).mean()


def trained(run: Path, model: Any, loss: Callable[[Any], Any], steps: int = 60) -> set[str]:
    """The names in the run of a training with that loss of a batch."""
    torch.manual_seed(0)
    hook = TorchHook.attach(model, run, save_interval=1)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(steps):
        update(optimizer, loss(torch.randn(32, 8)))
    hook.close()
    return set(create_trial(run).tensor_names(mode=Mode.TRAIN))


def test_parts_of_a_model(run: Path) -> None:
    model = Autoencoder()
    names = trained(run, model, model.loss)
    assert {"encoder_input_0", "samples", "loss", "loss/skill"} <= names
    assert "decoder_input_0" not in names  # a latent is no sample
    assert not any(each._forward_hooks or each._forward_pre_hooks for each in model.modules())


def test_models_in_a_list(run: Path) -> None:
    models = nn.ModuleDict({"encoder": nn.Linear(8, 4), "heads": nn.ModuleList([nn.Linear(4, 8)])})

    def loss(x: Any) -> Any:
        return F.mse_loss(models["heads"][0](torch.tanh(models["encoder"](x))), x)

    names = trained(run, models, loss)
    assert {"encoder_input_0", "samples", "loss", "loss/skill"} <= names


def test_forward_by_itself(run: Path) -> None:
    model = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 8))
    names = trained(run, model, lambda x: (model.forward(x) - x).abs().mean())
    assert {"0_input_0", "samples", "loss/skill"} <= names


def test_a_model_that_is_called_itself(run: Path) -> None:
    model = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 8))
    names = trained(run, model, lambda x: (model(x) - x).abs().mean())
    assert {"Sequential_input_0", "samples"} <= names
    assert "0_input_0" not in names


@pytest.mark.parametrize("steps", [3, 30])
def test_samples_are_those_of_the_first_part(run: Path, steps: int) -> None:
    model = Autoencoder()
    trained(run, model, model.loss, steps)
    samples = create_trial(run).tensor("samples")
    each = [samples.value(step, mode=Mode.TRAIN)[:3].tolist() for step in samples.steps(Mode.TRAIN)]
    assert set(map(tuple, each)) == {(1.0, 32.0, 8.0)}  # steps, samples, elements of one


def test_a_part_may_be_captured_after_it_was_watched(run: Path, tmp_path: Path) -> None:
    """As in a cell of a notebook that is run again."""
    model = Autoencoder()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    hooks = [TorchHook.attach(model, tmp_path / name, save_interval=1) for name in ("one", "two")]
    for _ in range(20):
        update(optimizer, model.loss(torch.randn(32, 8)))
    names = trained(run, model.encoder, lambda x: model.encoder(x).square().mean())
    assert {"Sequential_input_0", "samples"} <= names
    for hook in hooks:
        assert hook.hook.stats.errors == 0
        hook.close()


def test_a_teacher_is_no_part(run: Path) -> None:
    model = Autoencoder()

    def loss(x: Any) -> Any:
        with torch.no_grad():
            model.decoder(torch.ones(5, 4))
        return model.loss(x)

    names = trained(run, model, loss)
    assert "encoder_input_0" in names
    assert "decoder_input_0" not in names


class Translator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(8, 16)
        self.decoder = nn.Linear(16, 4)


def by_parts(model: Any, x: Any) -> Any:
    return model.decoder(torch.relu(model.encoder(x)))


def by_forward(model: Any, x: Any) -> Any:
    return model.forward(x)


@pytest.mark.parametrize("own_modes", [False, True])
@pytest.mark.parametrize("by_hand", [False, True])
@pytest.mark.parametrize("call", [by_parts, by_forward])
def test_evaluations_by_parts(run: Path, call: Any, by_hand: bool, own_modes: bool) -> None:
    """Of whole batches, with losses that are compared; each step of training is seen as before."""
    torch.manual_seed(0)
    model = Translator() if call is by_parts else nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 4))
    parts = [*model.children()] if own_modes else [model]
    x, y = torch.randn(96, 8), torch.randn(96, 4)

    def loss(at: slice) -> Any:
        error = call(model, x[at]) - y[at]
        return (error**2).mean() if by_hand else F.mse_loss(call(model, x[at]), y[at])

    hook = TorchHook.attach(model, run, save_interval=2, max_overhead=None)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    evaluated = []
    for _ in range(8):
        for part in parts:
            part.train()
        for at in range(4):
            update(optimizer, loss(slice(16 * at, 16 * at + 16)))
        for part in parts:
            part.eval()
        with torch.no_grad():
            evaluated.append((loss(slice(64, 80)) + loss(slice(80, 96))) / 2)
    hook.close()
    trial = create_trial(run)
    steps = trial.steps(mode=Mode.EVAL)
    saved = [float(trial.tensor("loss").value(step, mode=Mode.EVAL)) for step in steps]
    assert saved == pytest.approx([float(each) for each in evaluated])
    assert len(trial.tensor("loss").steps(mode=Mode.TRAIN)) >= 14
    assert "loss/skill" in trial.tensor_names(mode=Mode.EVAL)

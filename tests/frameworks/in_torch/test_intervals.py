"""The loss and a gradient norm of every step, summarised in the index file of each save."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - everybody calls it so
from tocsin.evaluation import check
from tocsin.model import Mode, RuleStatus
from tocsin.tensors import Entry, LocalStorage
from tocsin_hooks.torch import TorchHook, intervals
from torch import nn

from tests.frameworks.in_torch.runs import update

Written = dict[tuple[Mode, int], dict[str, Entry]]
Read = Callable[[Path], Written]


class Losses:
    """A model, and losses whose values are known: the step's own number."""

    def __init__(self, width: int = 4) -> None:
        self.model = nn.Sequential(nn.Linear(4, width), nn.Linear(width, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.0)

    def loss(self, value: float) -> Any:
        output = self.model(torch.ones(2, 4)).mean()
        return output - output.detach() + value

    def train(self, steps: int, first: int = 0) -> None:
        for number in range(first, first + steps):
            update(self.optimizer, self.loss(float(number)))


def interval(entries: dict[str, Entry], name: str = "interval/loss") -> Any:
    entry = entries[name]
    assert entry.summary is not None
    assert entry.role == "interval"
    return entry.summary


def test_a_save_summarises_all_steps_since_the_one_before(run: Path, written: Read) -> None:
    losses = Losses()
    with TorchHook.attach(losses.model, run, max_overhead=None):
        losses.train(21)
    steps = written(run)
    assert "interval/loss" not in steps[Mode.TRAIN, 0] or (interval(steps[Mode.TRAIN, 0]).size == 1)
    found = interval(steps[Mode.TRAIN, 20])
    assert (found.size, found.min, found.max, found.max_step) == (10, 11.0, 20.0, 20)
    assert found.quantiles == {"0.5": 15.5}
    norm = interval(steps[Mode.TRAIN, 20], "interval/gradient")
    largest = losses.model[0].weight.grad
    assert norm.size == 10
    assert norm.max == pytest.approx(float(largest.norm()), rel=1e-5)


@pytest.mark.parametrize(("seconds", "expected"), [(1e-3, 50), (25e-6, 10), (10e-6, 5)])
def test_of_short_steps_some_are_kept(
    seconds: float, expected: int, run: Path, written: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as a quarter of the limit allows: all, every fifth, every ninth."""
    losses = Losses()
    hook = TorchHook.attach(losses.model, run, save_interval=50, max_overhead=0.9)
    done = 0
    monkeypatch.setattr(intervals, "perf_counter", lambda: seconds * done)
    for done in range(151):
        losses.train(1, done)
    hook.close()
    assert interval(written(run)[Mode.TRAIN, 150]).size == expected


def test_losses_of_idle_steps_that_are_not_finite_are_counted(run: Path, written: Read) -> None:
    losses = Losses()
    with TorchHook.attach(losses.model, run, save_interval=100, max_overhead=None):
        for number in range(101):
            update(losses.optimizer, losses.loss(math.nan if number in (57, 58) else 1.0))
    found = interval(written(run)[Mode.TRAIN, 100])
    assert (found.size, found.nan, found.max, found.max_step) == (100, 2, 1.0, 57)


def test_nothing_is_watched_where_no_rule_reads_it(run: Path, written: Read) -> None:
    losses = Losses()
    run.mkdir()
    watch = run / "own.yaml"
    watch.write_text("rules: [VanishingGradient]\n")
    with TorchHook.attach(losses.model, run, watch=watch):
        losses.train(11)
        assert not any(each._backward_hooks for each in losses.model.parameters())
    assert "interval/loss" not in written(run)[Mode.TRAIN, 10]


def test_each_optimizer_has_its_own(run: Path, written: Read) -> None:
    losses = Losses()
    optimizers = [torch.optim.SGD(part.parameters(), 0.0) for part in losses.model]
    with TorchHook.attach(losses.model, run, max_overhead=None, save_interval=20):
        for number in range(41):
            losses.model.zero_grad()
            losses.loss(float(number)).backward()
            for each in optimizers:
                each.step()
    saved = written(run)[Mode.TRAIN, 40]
    assert interval(saved).max == 40.0
    assert interval(saved, "interval/gradient").size == 20
    assert interval(saved, "interval/gradient_1").bounds is not None


def test_the_losses_of_opponents_have_no_level(run: Path, written: Read) -> None:
    losses = Losses()
    optimizers = [torch.optim.SGD(part.parameters(), 0.0) for part in losses.model]
    with TorchHook.attach(losses.model, run, max_overhead=None, save_interval=4):
        for _ in range(20):
            for optimizer, value in zip(optimizers, (1.0, 5.0), strict=True):
                losses.model.zero_grad()
                losses.loss(value).backward()
                optimizer.step()
        assert not any(each._backward_hooks for each in losses.model.parameters()), "idle"
    saved = [entries for (mode, _), entries in written(run).items() if mode is Mode.TRAIN]
    assert any(each.kind == "competing" for entries in saved for each in entries.values())
    assert not any(name.startswith("interval/") for name in saved[-1])


def test_accumulated_losses_count_each(run: Path, written: Read) -> None:
    losses = Losses()
    with TorchHook.attach(losses.model, run, save_interval=5, max_overhead=None):
        for number in range(6):
            losses.optimizer.zero_grad()
            for part in range(3):
                losses.loss(float(number + part)).backward()
            losses.optimizer.step()
    saved = written(run)[Mode.TRAIN, 5]
    assert interval(saved).size == 15
    assert interval(saved, "interval/gradient").size == 15


def test_losses_are_as_before_loss_scaling(run: Path, written: Read) -> None:
    losses = Losses()
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    with TorchHook.attach(losses.model, run, save_interval=5, max_overhead=None):
        for number in range(6):
            losses.optimizer.zero_grad()
            scaler.scale(losses.loss(float(number))).backward()
            scaler.step(losses.optimizer)
            scaler.update()
    saved = written(run)[Mode.TRAIN, 5]
    assert interval(saved).max == 5.0
    norm = losses.model[0].weight.grad.norm()  # unscaled by the scaler
    assert interval(saved, "interval/gradient").max == pytest.approx(float(norm), rel=1e-5)


def test_a_closure_is_left_out(run: Path, written: Read) -> None:
    losses = Losses()
    optimizer = torch.optim.LBFGS(losses.model.parameters(), 0.1)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = losses.loss(1.0)
        loss.backward()
        return loss

    with TorchHook.attach(losses.model, run, max_overhead=None) as hook:
        for _ in range(11):
            optimizer.step(closure)
        assert hook.stats.errors == 0
    assert "interval/loss" not in written(run)[Mode.TRAIN, 10]


def test_a_closed_hook_leaves_nothing(run: Path) -> None:
    losses = Losses()
    with TorchHook.attach(losses.model, run):
        losses.train(11)
        assert any(each._backward_hooks for each in losses.model.parameters())
        copy.deepcopy(losses.model)
        pickle.dumps(losses.model)
    assert not any(each._backward_hooks for each in losses.model.parameters())


def test_the_weights_are_the_same(run: Path) -> None:
    def trained(hooked: bool) -> list[Any]:
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.3), nn.Linear(8, 1))
        hook = TorchHook.attach(model, run) if hooked else None
        optimizer = torch.optim.Adam(model.parameters(), 0.01)
        for _ in range(60):
            update(optimizer, model(torch.randn(4, 4)).square().mean())
        if hook is not None:
            hook.close()
        return [each.tolist() for each in model.parameters()]

    assert trained(True) == trained(False)


class Recurrent(nn.Module):
    """A plain recurrent network, whose recurrence multiplies by ``gain``."""

    def __init__(self, gain: float) -> None:
        super().__init__()
        self.cells = nn.RNN(2, 16, batch_first=True)
        self.out = nn.Linear(16, 1)
        with torch.no_grad():
            self.cells.weight_hh_l0.copy_(gain * torch.linalg.qr(torch.randn(16, 16)).Q)

    def forward(self, series: torch.Tensor) -> torch.Tensor:
        states, _ = self.cells(series)
        return self.out(states[:, -1])


@pytest.mark.parametrize("gain", [2.5, 0.9])
def test_an_exploding_recurrent_network_is_found_between_the_saves(gain: float, run: Path) -> None:
    """A few series in a hundred are long, and through these gradients explode. No save has one."""
    model = Recurrent(gain)
    optimizer = torch.optim.SGD(model.parameters(), 1e-5)
    with TorchHook.attach(model, run, max_overhead=None):
        for number in range(600):
            long = number % 27 == 4 and number % 10
            series = 0.05 * torch.randn(8, 40 if long else 4, 2)
            update(optimizer, F.mse_loss(model(series), 1.0 + series.sum((1, 2))[:, None]))
    checkpoint, _ = check(LocalStorage(run))
    rules = checkpoint.rules.items()
    found = {name: str(each) for name, each in rules if each.status is RuleStatus.ISSUES_FOUND}
    assert ("GradientExplosion" in found) == (gain > 1)
    if gain > 1:
        assert "far above those before; the latest is step" in found["GradientExplosion"]

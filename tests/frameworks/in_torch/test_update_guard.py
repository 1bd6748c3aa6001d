"""The guard before an update: skips what is not finite, and nothing else changes."""

from __future__ import annotations

import logging
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tocsin.evaluation import check
from tocsin.model import Mode, RuleStatus, Severity
from tocsin.tensors import Entry, LocalStorage
from tocsin_hooks.torch import TorchHook
from torch import nn

from tests.frameworks.in_torch.runs import update
from tests.waiting import PATIENCE

Written = dict[tuple[Mode, int], dict[str, Entry]]
Read = Callable[[Path], Written]
NAN = math.nan


class Training:
    """A model that is trained step by step, each with a batch that may be poisoned."""

    def __init__(self, **options: Any) -> None:
        torch.manual_seed(3)
        self.model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
        self.optimizer: Any = torch.optim.Adam(self.model.parameters(), 0.01, weight_decay=0.1)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=64.0, **options)

    def loss(self, poison: float = 0.0) -> Any:
        return self.model(torch.randn(4, 4) + poison).square().mean()

    def step(self, poison: float = 0.0) -> None:
        update(self.optimizer, self.loss(poison))

    def scaled(self, poison: float = 0.0) -> None:
        self.optimizer.zero_grad()
        self.scaler.scale(self.loss(poison)).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def accumulated(self, poison: float = 0.0) -> None:
        self.optimizer.zero_grad()
        for part in range(3):
            self.loss(poison * (part == 1)).backward()
        self.optimizer.step()

    def with_closure(self, poison: float = 0.0) -> None:
        given = torch.randn(4, 4) + poison

        def closure() -> Any:
            self.optimizer.zero_grad()
            loss = self.model(given).square().mean()
            loss.backward()
            return loss

        self.optimizer.step(closure)

    @property
    def weights(self) -> list[Any]:
        return [each.tolist() for each in self.model.parameters()]

    @property
    def state(self) -> str:
        return str(self.optimizer.state_dict())


WAYS = [Training.step, Training.scaled, Training.accumulated, Training.with_closure]


def optimized(training: Training, name: str) -> None:
    kinds: dict[str, Callable[[Any], Any]] = {
        "Adam": lambda given: torch.optim.Adam(given, 0.01, weight_decay=0.1),
        "fused": lambda given: torch.optim.Adam(given, 0.01, fused=True),
        "momentum": lambda given: torch.optim.SGD(given, 0.01, momentum=0.9, weight_decay=0.1),
        "LBFGS": lambda given: torch.optim.LBFGS(given, 0.1, max_iter=4),
        "searching": lambda given: torch.optim.LBFGS(
            given, max_iter=4, line_search_fn="strong_wolfe"
        ),
    }
    training.optimizer = kinds[name](training.model.parameters())


CASES = [(way, name) for way in WAYS for name in ("Adam", "fused", "momentum")] + [
    (Training.with_closure, name) for name in ("LBFGS", "searching")
]


@pytest.mark.parametrize(("way", "name"), CASES)
def test_nothing_changes_where_nothing_is_skipped(way: Any, name: str, run: Path) -> None:
    def trained(guard: bool) -> tuple[Any, ...]:
        training = Training()
        optimized(training, name)
        hook = TorchHook.attach(training.model, run, guard=guard)
        for _ in range(25):
            way(training)
        hook.close()
        assert hook.stats.errors == 0
        return training.weights, training.state, torch.rand(1).item()

    assert trained(True) == trained(False)


@pytest.mark.parametrize(("way", "name"), CASES)
def test_a_poisoned_batch_is_survived(way: Any, name: str, run: Path) -> None:
    """The weights after it are those of a training that never made the update."""
    training = Training()
    optimized(training, name)
    with TorchHook.attach(training.model, run, guard=True) as hook:
        for number in range(40):
            before = training.weights
            way(training, NAN if number in (0, 17, 20, 33) else 0.0)
            changed = training.weights != before
            assert changed == (number not in (0, 17, 20, 33))
        assert hook.stats.errors == 0
    assert all(each.isfinite().all() for each in training.model.parameters())


def test_a_skipped_update_leaves_the_state_of_the_optimizer(run: Path) -> None:
    training = Training()
    with TorchHook.attach(training.model, run, guard=True):
        for _ in range(5):
            training.step()
        before = training.state
        training.step(NAN)
        assert training.state == before
        assert any(each.grad.isnan().any() for each in training.model.parameters())


def test_a_loss_that_is_not_finite_is_enough(run: Path) -> None:
    training = Training()
    with TorchHook.attach(training.model, run, guard=True):
        training.step()
        before = training.weights
        training.optimizer.zero_grad()
        (training.loss() + math.inf).backward()
        assert all(each.grad.isfinite().all() for each in training.model.parameters())
        training.optimizer.step()
        assert training.weights == before
        training.step()
        assert training.weights != before


def test_without_the_option_nothing_is_guarded(run: Path) -> None:
    training = Training()
    with TorchHook.attach(training.model, run):
        training.step(NAN)
    assert all(each.isnan().all() for each in training.model.parameters())


def test_the_watch_file_asks_for_it(run: Path, tmp_path: Path) -> None:
    watch = tmp_path / "watch.yaml"
    watch.write_text("guard: true\n")
    training = Training()
    with TorchHook.attach(training.model, run, watch=watch):
        training.step(NAN)
        assert all(each.isfinite().all() for each in training.model.parameters())


def test_each_optimizer_is_guarded_by_itself(run: Path) -> None:
    first, second = nn.Linear(4, 1), nn.Linear(4, 1)
    model = nn.ModuleList([first, second])
    optimizers = [torch.optim.SGD(part.parameters(), 0.1) for part in model]
    with TorchHook.attach(model, run, guard=True):
        for poison in (0.0, NAN):
            before = [part.weight.tolist() for part in (first, second)]
            for part, optimizer in zip((first, second), optimizers, strict=True):
                batch = torch.randn(2, 4) + (poison if part is first else 0.0)
                update(optimizer, part(batch).mean())
            assert (first.weight.tolist() == before[0]) == math.isnan(poison)
            assert second.weight.tolist() != before[1]


def test_large_gradients_are_finite(run: Path) -> None:
    """The usual norm of these overflows."""
    training = Training()
    training.optimizer = torch.optim.SGD(training.model.parameters(), 1e-38)
    with TorchHook.attach(training.model, run, guard=True):
        before = training.weights
        training.optimizer.zero_grad()
        training.loss().backward()
        for each in training.model.parameters():
            each.grad.fill_(3e38)
        training.optimizer.step()
        assert training.weights != before


def test_skips_are_saved_logged_and_judged(
    run: Path, written: Read, caplog: pytest.LogCaptureFixture
) -> None:
    training = Training()
    with (
        caplog.at_level(logging.WARNING, "tocsin"),
        TorchHook.attach(training.model, run, guard=True, max_overhead=None),
    ):
        for number in range(101):
            training.step(NAN if number in (30, 57) else 0.0)
    steps = written(run)
    assert "updates/skipped" in steps[Mode.TRAIN, 57]
    assert {*steps[Mode.TRAIN, 30]} == {"updates/skipped", "updates/all"}  # nothing that is lost
    assert "gradient/Sequential_0.weight" in steps[Mode.TRAIN, 31]
    last = steps[Mode.TRAIN, 100]
    assert last["updates/skipped"].summary.mean == 2.0  # type: ignore[union-attr]
    assert last["updates/all"].summary.mean == 101.0  # type: ignore[union-attr]
    assert "2 of 58 updates skipped" in caplog.text
    checkpoint, _ = check(LocalStorage(run))
    fired = {name for name, each in checkpoint.rules.items() if each.fired_at is not None}
    assert "UpdatesSkipped" in fired
    assert not fired & {"ExplodingTensor", "GradientExplosion", "LossSpike"}
    assert checkpoint.rules["UpdatesSkipped"].severity is Severity.INFO


def test_a_training_that_is_lost_is_critical(run: Path) -> None:
    training = Training()
    with TorchHook.attach(training.model, run, guard=True, max_overhead=None):
        for number in range(60):
            training.step(NAN if number > 20 else 0.0)
    checkpoint, _ = check(LocalStorage(run))
    rule = checkpoint.rules["UpdatesSkipped"]
    assert rule.status is RuleStatus.ISSUES_FOUND
    assert rule.severity is Severity.CRITICAL


def test_a_loss_decides_once(run: Path) -> None:
    """No backward pass comes in between that the hook sees: the loss is an old one."""
    training = Training()
    with TorchHook.attach(training.model, run, guard=True):
        training.step()
        update(training.optimizer, training.loss() + math.inf)
        before = training.weights
        training.optimizer.step()
        assert training.weights != before


@pytest.mark.parametrize("form", ["ddp", "fsdp"])
def test_all_processes_skip_alike(form: str) -> None:
    done = subprocess.run(
        [sys.executable, Path(__file__).parent / "guarded.py", form],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("skipped 2 of 6") == 2, done.stdout


def test_a_closed_hook_guards_nothing(run: Path) -> None:
    training = Training()
    with TorchHook.attach(training.model, run, guard=True):
        training.step()
    assert not training.optimizer._optimizer_step_pre_hooks
    assert not training.optimizer._optimizer_step_post_hooks
    assert not any(each._backward_hooks for each in training.model.parameters())
    training.step(NAN)
    assert all(each.isnan().all() for each in training.model.parameters())

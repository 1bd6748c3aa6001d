"""What must hold of schedules of learning rates in a loop of one's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - everybody calls it so
from accelerate import Accelerator
from tocsin import create_trial
from tocsin.model import Mode
from tocsin_hooks.torch import TorchHook
from torch import nn
from torch.optim import lr_scheduler as schedules
from transformers import get_linear_schedule_with_warmup

from tests.frameworks.in_torch.runs import update
from tests.frameworks.in_torch.test_contracts import broken

EPOCHS, UPDATES = 12, 10
ALL = EPOCHS * UPDATES

Step = Callable[[Any, float, float], None]


def accelerated(optimizer: Any) -> Any:
    """As Hugging Face's Trainer makes a schedule for it."""
    return Accelerator(cpu=True).prepare_optimizer(optimizer)


def never(schedule: Any, loss: float, accuracy: float) -> None: ...


def plainly(schedule: Any, loss: float, accuracy: float) -> None:
    schedule.step()


def by_loss(schedule: Any, loss: float, accuracy: float) -> None:
    schedule.step(loss)


def by_accuracy(schedule: Any, loss: float, accuracy: float) -> None:
    schedule.step(accuracy)


def in_turn(optimizer: Any) -> Any:
    parts = [schedules.LinearLR(optimizer), schedules.CosineAnnealingLR(optimizer, EPOCHS - 3)]
    return schedules.SequentialLR(optimizer, parts, [3])


def beside(optimizer: Any) -> Any:
    """A schedule that is stepped, and one for the end of a longer training."""
    found = schedules.StepLR(optimizer, 4)
    found.later = torch.optim.swa_utils.SWALR(optimizer, 0.01)
    return found


def plateau(mode: Any) -> Callable[[Any], Any]:
    return lambda optimizer: schedules.ReduceLROnPlateau(optimizer, mode, patience=2)


def train(run: Path, schedule: Callable[[Any], Any], by_update: Step, by_epoch: Step) -> TorchHook:
    """Here everything dies before the run is closed, as where a script has a function for it."""
    torch.manual_seed(0)
    x = torch.randn(400, 8)
    y = (x[:, :3].sum(1) > 0).long()
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))
    hook = TorchHook.attach(model, run, max_overhead=None)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    falls = schedule(optimizer)
    for _ in range(EPOCHS):
        model.train()
        for _ in range(UPDATES):
            batch = torch.randint(0, 300, (32,))
            update(optimizer, F.cross_entropy(model(x[batch]), y[batch]))
            by_update(falls, 0.0, 0.0)
        model.eval()
        with torch.no_grad():
            output = model(x[300:])
            loss = F.cross_entropy(output, y[300:]).item()
            accuracy = (output.argmax(1) == y[300:]).float().mean().item()
        by_epoch(falls, loss, accuracy)
    return hook


@pytest.mark.parametrize(
    ("schedule", "by_update", "by_epoch", "expected"),
    [
        (lambda o: schedules.StepLR(o, 4), never, never, ("scheduler_not_stepped", "StepLR")),
        (
            lambda o: schedules.LinearLR(o, 0.1, 1.0, 20),
            never,
            never,
            ("warmup_not_finished", "LinearLR"),
        ),
        (lambda o: schedules.StepLR(o, 4), never, plainly, None),
        (
            lambda o: schedules.OneCycleLR(o, 0.2, total_steps=ALL),
            never,
            plainly,
            ("scheduler_stepped_per_epoch", "OneCycleLR"),
        ),
        (lambda o: schedules.OneCycleLR(o, 0.2, total_steps=ALL), plainly, never, None),
        (
            lambda o: schedules.CosineAnnealingLR(o, ALL),
            never,
            plainly,
            ("scheduler_stepped_per_epoch", "CosineAnnealingLR"),
        ),
        (lambda o: schedules.CosineAnnealingLR(o, EPOCHS), never, plainly, None),
        (in_turn, never, plainly, None),
        (
            lambda o: get_linear_schedule_with_warmup(o, 500, ALL),
            plainly,
            never,
            ("warmup_not_finished", "LambdaLR"),
        ),
        (
            lambda o: get_linear_schedule_with_warmup(accelerated(o), 500, ALL),
            plainly,
            never,
            ("warmup_not_finished", "LambdaLR"),
        ),
        (
            lambda o: get_linear_schedule_with_warmup(accelerated(o), 20, ALL),
            plainly,
            never,
            None,
        ),
        (lambda o: get_linear_schedule_with_warmup(o, 20, ALL), plainly, never, None),
        (lambda o: get_linear_schedule_with_warmup(o, 500, 5000), plainly, never, None),  # stopped
        (lambda o: schedules.CosineAnnealingLR(o, ALL + 5), never, plainly, None),  # stopped
        (beside, never, plainly, None),
        (plateau("max"), never, by_loss, ("monitor_mode_reversed", "ReduceLROnPlateau")),
        (plateau("min"), never, by_loss, None),
        (plateau("max"), never, by_accuracy, None),
    ],
)
def test_schedules(
    schedule: Callable[[Any], Any],
    by_update: Step,
    by_epoch: Step,
    expected: tuple[str, str] | None,
    run: Path,
) -> None:
    hook = train(run, schedule, by_update, by_epoch)
    hook.close()
    assert hook.stats.errors == 0
    assert broken(run) == (dict([expected]) if expected else {})


class Strange(schedules.LRScheduler):
    """Another library's, which is none of PyTorch's but by its class."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer


def test_a_strange_schedule_costs_no_evaluation(run: Path) -> None:
    hook = train(run, Strange, never, never)
    hook.close()
    assert hook.stats.errors > 0
    assert len(create_trial(run).steps(mode=Mode.EVAL)) == EPOCHS

"""Steps that are neither saved nor looked at: they cost nothing, and change nothing of the rest."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - everybody calls it so
from tocsin.model import Mode
from tocsin.tensors import STOP, LocalStorage
from tocsin_hooks.stop import TrainingStopped
from tocsin_hooks.torch import TorchHook, look_schedule
from tocsin_hooks.torch.idle import IdleSteps
from torch import nn

from tests.frameworks.in_torch.runs import indexes

MOST_FRAMES, MOST_FILES = 15, 5  # three of them take the loss and a gradient norm


@pytest.fixture(autouse=True)
def _few_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look_schedule, "EVERY_STEP", 4)


class Models:
    """A model that is watched, another one, and their optimizers."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.own = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Dropout(0.1), nn.Linear(4, 1))
        self.other = nn.Sequential(nn.Linear(4, 8))
        self.optimizer = torch.optim.SGD(self.own.parameters(), 0.01)
        self.last = torch.optim.SGD(self.own[3].parameters(), 0.01)
        self.others = torch.optim.SGD(self.other.parameters(), 0.01)

    def loss(self, samples: int = 6) -> Any:
        return F.mse_loss(self.own(torch.randn(samples, 8)), torch.ones(samples, 1))


def update(optimizer: torch.optim.Optimizer, *losses: Any) -> None:
    optimizer.zero_grad()
    for loss in losses:
        loss.backward()
    optimizer.step()


def plain(models: Models, number: int) -> None:
    update(models.optimizer, models.loss(6 if number % 7 else 3))


def many(models: Models, count: int) -> None:
    for number in range(count):
        plain(models, number)


def evaluated(models: Models, number: int) -> None:
    plain(models, number)
    if number % 23 == 22:
        models.own.eval()
        with torch.no_grad():
            for _ in range(3):
                models.loss()
        models.own.train()


def accumulated(models: Models, number: int) -> None:
    update(models.optimizer, *(models.loss() for _ in range(4 if number % 20 != 17 else 2)))


def skipped(models: Models, number: int) -> None:
    """As loss scaling does after an overflow."""
    models.loss().backward()
    if number % 15 != 8:
        models.optimizer.step()
    models.optimizer.zero_grad()


def two_models(models: Models, number: int) -> None:
    plain(models, number)
    update(models.others, models.other(torch.randn(2, 4)).square().mean())


def opponents(models: Models, number: int) -> None:
    made = models.other(torch.randn(6, 4))
    update(models.optimizer, models.loss() + models.own(made.detach()).mean())
    update(models.others, -models.own(made).mean())


def turns(models: Models, number: int) -> None:
    update(models.optimizer, models.loss())
    update(models.last, models.loss())


def acting(models: Models, number: int) -> None:
    for _ in range(number % 3):
        with torch.no_grad():
            models.own(torch.randn(1, 8))
    plain(models, number)


def frozen(models: Models, number: int) -> None:
    if number == 31:
        models.own.eval()
    plain(models, number)


def another_optimizer(models: Models, number: int) -> None:
    if number == 27:
        models.optimizer = torch.optim.SGD(models.own.parameters(), 0.02)
    plain(models, number)


def by_its_parts(models: Models, number: int) -> None:
    """The model is never called itself."""
    hidden = models.own[0](torch.randn(6, 8))
    update(models.optimizer, models.own[3](hidden).square().mean())


def with_a_closure(models: Models, number: int) -> None:
    if number % 5:
        plain(models, number)
        return

    def closure() -> Any:
        models.optimizer.zero_grad()
        loss = models.loss()
        loss.backward()
        return loss

    models.optimizer.step(closure)


def policy(models: Models, number: int) -> None:
    """Episodes of changing length, a state at a time."""
    update(models.optimizer, sum(models.loss(1) for _ in range(3 + number % 5)))


def values(models: Models, number: int) -> None:
    """Most actions are the model's, some are drawn by chance."""
    if number % 5 != 3:
        with torch.no_grad():
            models.own(torch.randn(1, 8))
    plain(models, number)


def rollouts(models: Models, number: int) -> None:
    with torch.no_grad():
        for _ in range(6):
            models.own(torch.randn(2, 8))
    for _ in range(4):
        plain(models, 1)


def accumulated_and_skipped(models: Models, number: int) -> None:
    for _ in range(4):
        models.loss().backward()
    if number % 11 != 8:
        models.optimizer.step()
    models.optimizer.zero_grad()


def detached(models: Models, number: int) -> None:
    """As a generator, whose samples its critic sees most of the time."""
    for _ in range(3):
        update(
            models.others, models.other(models.own(torch.randn(6, 8)).detach().repeat(1, 4)).sum()
        )
    plain(models, number)


LOOPS = [
    plain,
    evaluated,
    accumulated,
    skipped,
    two_models,
    opponents,
    turns,
    acting,
    frozen,
    another_optimizer,
    by_its_parts,
    with_a_closure,
    policy,
    values,
    rollouts,
    accumulated_and_skipped,
    detached,
]


def trained(loop: Callable[[Models, int], None], run: Path) -> tuple[Any, ...]:
    """The position after each step, what was saved of which steps, and the weights at the end."""
    models = Models()
    hook = TorchHook.attach(models.own, run, save_interval=5, max_overhead=None)
    positions = []
    for number in range(70):
        loop(models, number)
        positions.append(hook.position)
    hook.close()
    assert hook.stats.errors == 0
    found = indexes(run)
    saved = [(i.step, i.mode, i.mode_step, sorted(e.name for e in i.entries)) for i in found]
    return positions, saved, [each.tolist() for each in models.own.parameters()]


@pytest.mark.parametrize("loop", LOOPS)
def test_the_same_is_saved_of_the_same_steps(
    loop: Callable[[Models, int], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    idle = trained(loop, tmp_path / "idle")
    monkeypatch.setattr(IdleSteps, "follow", lambda *_, **__: None)
    looked = trained(loop, tmp_path / "looked")
    for one, other in zip(idle, looked, strict=True):
        assert one == other


@pytest.mark.parametrize("loop", [policy, values, rollouts, accumulated, detached])
def test_models_that_act_are_idle_as_well(
    loop: Callable[[Models, int], None], run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models, handled, before = Models(), 0, 0

    def meet(idle: IdleSteps, *event: Any) -> None:
        nonlocal handled
        handled += 1
        usual(idle, *event)

    usual = IdleSteps._meet
    monkeypatch.setattr(IdleSteps, "_meet", meet)
    with TorchHook.attach(models.own, run, save_interval=10**6, max_overhead=None):
        for number in range(180):
            loop(models, number)
            before = handled if number < 140 else before
    assert handled <= before + 1  # the background may have news, on a busy machine late


@pytest.mark.parametrize("loop", [plain, two_models])
def test_an_idle_step_passes_few_frames_of_few_files(
    loop: Callable[[Models, int], None], run: Path
) -> None:
    models = Models()
    hook = TorchHook.attach(models.own, run, save_interval=20, max_overhead=None)
    frames: list[str] = []

    def called(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and "/tocsin" in frame.f_code.co_filename:
            frames.append(frame.f_code.co_filename)

    for number in range(30):
        if number == 29:
            sys.setprofile(called)
        loop(models, number)
        sys.setprofile(None)
    hook.close()
    assert 0 < len(frames) <= MOST_FRAMES
    assert len({*frames}) <= MOST_FILES


def test_a_stop_request_ends_idle_steps(run: Path) -> None:
    models = Models()
    with TorchHook.attach(
        models.own, run, save_interval=10**6, poll_interval=0.01, raise_on_stop=True
    ) as hook:
        for number in range(20):
            plain(models, number)
        LocalStorage(run).write(STOP, b'{"requested_at": "2100-01-01T00:00:00Z"}')
        with pytest.raises(TrainingStopped):
            many(models, 10**6)
        assert hook.position[Mode.TRAIN.name] < 10**6

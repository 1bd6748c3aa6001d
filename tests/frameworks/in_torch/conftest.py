"""Tiny models, and what their runs hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tocsin.model import Mode
from tocsin.tensors import Entry, LocalStorage, read_index
from torch import nn
from torch.nn.modules import module as modules
from torch.optim import Optimizer
from torch.optim import optimizer as optimizers  # type: ignore[attr-defined] # not in its __all__

Written = dict[tuple[Mode, int], dict[str, Entry]]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(4, 16)
        self.relu1 = nn.ReLU()
        self.fc2 = nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc2(self.relu1(self.fc1(x)))


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One thread, the same numbers each time, and an environment that says nothing of us."""
    for name in ("TOCSIN", "USE_SMDEBUG", "TOCSIN_RUN", "TRAINING_JOB_NAME", "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()  # or the hook holds later models for compiled ones


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def net() -> nn.Module:
    return Net()


@pytest.fixture
def batch() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(8, 4), torch.randint(0, 3, (8,))


@pytest.fixture
def train(batch: tuple[torch.Tensor, torch.Tensor]) -> Callable[..., Optimizer]:
    """Plain training steps of a classifier."""

    def steps(
        model: nn.Module,
        count: int = 1,
        optimizer: Optimizer | None = None,
        criterion: Callable[..., torch.Tensor] | None = None,
    ) -> Optimizer:
        optimizer = optimizer or torch.optim.SGD(model.parameters(), 0.1)
        criterion = criterion or nn.CrossEntropyLoss()
        for _ in range(count):
            optimizer.zero_grad()
            criterion(model(batch[0]), batch[1]).backward()
            optimizer.step()
        return optimizer

    return steps


@pytest.fixture
def written() -> Callable[[Path], Written]:
    """What a run holds: of each step, by its mode and number in that mode, entries by name."""

    def read(run: Path) -> Written:
        storage = LocalStorage(run)
        found = [read_index(storage, item) for item in storage.list("index/")]
        return {
            (index.mode, index.mode_step): {entry.name: entry for entry in index.entries}
            for index in found
        }

    return read


def hooks_of(model: nn.Module) -> list[dict[Any, Any]]:
    """All hooks there are: of PyTorch, of a model's modules, and of its parameters."""
    everywhere = (
        modules._global_forward_hooks,
        modules._global_forward_pre_hooks,
        modules._global_forward_hooks_always_called,
        modules._global_forward_hooks_with_kwargs,
        modules._global_module_registration_hooks,
        optimizers._global_optimizer_pre_hooks,
        optimizers._global_optimizer_post_hooks,
    )
    own = [
        hooks
        for each in model.modules()
        for hooks in (
            each._forward_hooks,
            each._forward_pre_hooks,
            each._forward_hooks_always_called,
            each._forward_hooks_with_kwargs,
            each._forward_pre_hooks_with_kwargs,
            each._backward_hooks,
        )
    ]
    on_parameters = [
        hooks
        for each in model.parameters()
        for hooks in (each._backward_hooks, each._post_accumulate_grad_hooks)
    ]
    return [dict(hooks or {}) for hooks in (*everywhere, *own, *on_parameters)]

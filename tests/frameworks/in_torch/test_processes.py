"""Children of a training process capture nothing, and disturb nothing."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tocsin.model import Mode
from tocsin_hooks.torch import TorchHook
from torch import nn
from torch.utils.data import DataLoader, Dataset

from .conftest import Net, Written

Read = Callable[[Path], Written]
EVERY = {"save_interval": 1, "max_overhead": 1.0}


class Predicted(Dataset[torch.Tensor]):
    """Samples that a model makes, in whatever process it is asked."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model

    def __len__(self) -> int:
        return 4

    def __getitem__(self, place: int) -> torch.Tensor:
        return self._model(torch.full((4,), float(place))).detach()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_workers_of_a_data_loader(net: Net, run: Path, train: Any, written: Read) -> None:
    hook = TorchHook.attach(net, run, **EVERY)
    optimizer = train(net)
    loader = DataLoader(Predicted(net), batch_size=2, num_workers=2, multiprocessing_context="fork")
    assert len(list(loader)) == 2
    train(net, 1, optimizer)
    hook.close()
    assert list(written(run)) == [(Mode.TRAIN, 0), (Mode.TRAIN, 1)]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_training(net: Net, run: Path, train: Any, written: Read) -> None:
    hook = TorchHook.attach(net, run, **EVERY)
    optimizer = train(net)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            train(net, 3, optimizer)
            hook.close()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    train(net, 1, optimizer)
    hook.close()
    assert list(written(run)) == [(Mode.TRAIN, 0), (Mode.TRAIN, 1)]


def test_a_spawned_process_gets_the_model_without_us(run: Path, written: Read) -> None:
    model = nn.Linear(2, 2).requires_grad_(False)
    hook = TorchHook.attach(model, run, **EVERY)
    model(torch.ones(1, 2))
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        answers = pool.map(model, [torch.ones(1, 2)] * 2)
    assert torch.equal(answers[0], model(torch.ones(1, 2)))
    hook.close()
    steps = written(run)
    assert all(mode is Mode.TRAIN for mode, _ in steps)
    assert len(steps) == 2

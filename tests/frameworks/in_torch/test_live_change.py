"""A newer watch.json in the run changes what is captured of a model while it trains."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tocsin.tensors import WATCH, LocalStorage, read_index, read_values
from tocsin.watch import Watch, encode_watch, to_watch
from tocsin_hooks.torch import TorchHook
from torch import nn

from tests.frameworks.in_torch.runs import update
from tests.waiting import PATIENCE

Until = Callable[[Callable[[], bool]], None]


@pytest.fixture
def until(net: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> Until:
    """Trains on until something is so."""
    optimizer, criterion = torch.optim.SGD(net.parameters(), 0.01), nn.CrossEntropyLoss()

    def train(done: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE
        while not done():
            assert time.monotonic() < end
            update(optimizer, criterion(net(batch[0]), batch[1]))

    return train


def watch(interval: int, rule: str, **weights: bool) -> Watch:
    collections = {"weights": weights} if weights else {}
    capture: dict[str, Any] = {"save_interval": interval, "collections": collections}
    return to_watch({"rules": [rule], "capture": capture})


def test_interval_rules_and_values_change_while_it_trains(
    run: Path, net: nn.Module, until: Until
) -> None:
    hook = TorchHook.attach(
        net,
        run,
        watch=watch(1_000_000, "LossNotDecreasing"),
        poll_interval=0.005,
        max_overhead=None,
    )
    until((run / WATCH).exists)  # the hook's own: what follows is newer
    firsts = []
    for generation, newer in enumerate(
        [watch(1, "VanishingGradient"), watch(1, "DeadRelu", save_raw_tensor=True)], 1
    ):
        LocalStorage(run).write(WATCH, encode_watch(newer))
        until(lambda generation=generation: hook.hook.generation == generation)
        firsts.append(hook.position["TRAIN"] - 1)
        enough = hook.position["TRAIN"] + 3
        until(lambda enough=enough: hook.position["TRAIN"] == enough)
    hook.close()

    storage = LocalStorage(run)
    found = [read_index(storage, item) for item in storage.list("index/")]
    assert [index.step for index in found] == [0, *range(firsts[0], firsts[1] + 4)]
    for index in found:
        gradient, relu = index.entry("gradient/Net_fc1.weight"), index.entry("relu1_output_0")
        values = read_values(storage, index)
        assert index.entry("CrossEntropyLoss_output_0") is not None
        assert (gradient is not None) is (firsts[0] <= index.step < firsts[1])
        assert (relu is not None) is (index.step >= firsts[1])
        assert ("Net_fc1.weight" in values) is (index.step >= firsts[1])

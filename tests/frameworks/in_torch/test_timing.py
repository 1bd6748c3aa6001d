"""Times of a PyTorch training in its machine run: forward passes, steps, and what lies between."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import torch
from tocsin.tensors import LocalStorage, read_index
from tocsin.watch import Machine, Watch
from tocsin_hooks.torch import TorchHook

from tests.frameworks.in_torch.runs import update

WATCH = Watch(machine=Machine("100ms", gpu=False))


class Slow(torch.nn.Linear):
    def forward(self, inputs: Any) -> Any:
        time.sleep(0.01)
        return super().forward(inputs)


def durations(run: Path, name: str) -> tuple[int, float]:
    """How many, and the least of them."""
    storage = LocalStorage(run / "profiler-output")
    entries = [read_index(storage, each).entry(f"step/{name}") for each in storage.list("index/")]
    found = [each.summary for each in entries if each is not None and each.summary]
    return sum(s.size or 0 for s in found), min((s.min or 0.0 for s in found if s.size), default=0)


def train(run: Path, device: str, steps: int = 6) -> None:
    torch.manual_seed(0)
    model = Slow(4, 2).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    hook = TorchHook.attach(model, run, watch=WATCH, save_interval=3)
    for batch in hook.data([torch.ones(3, 4)] * steps):
        time.sleep(0.02)  # between two steps, as a loader that is not named to the hook
        update(optimizer, model(batch.to(device)).sum())
    hook.close()


def test_a_step_lasts_from_its_forward_pass_to_its_update(tmp_path: Path) -> None:
    train(tmp_path, "cpu")
    steps, step = durations(tmp_path, "TRAIN")
    passes, forward = durations(tmp_path, "forward")
    gaps, gap = durations(tmp_path, "between")
    assert (steps, passes, gaps) == (6, 6, 5)
    assert step >= forward >= 0.01
    assert gap >= 0.02
    assert durations(tmp_path, "wait")[0] == 6


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_on_a_gpu_its_own_clock_counts(tmp_path: Path) -> None:
    train(tmp_path, "cuda", steps=25)
    passes, forward = durations(tmp_path, "forward")
    assert passes >= 1
    assert 0 < forward < 1

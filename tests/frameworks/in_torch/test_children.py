"""Scripts whose data loaders have workers of any kind: those capture nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tocsin.model import Mode
from tocsin.tensors import END_MARKER, LocalStorage, read_collections, read_index

from tests.waiting import PATIENCE

SCRIPT = """
import os, sys
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from tocsin_hooks.torch import TorchHook

from tests.frameworks.in_torch.runs import update

class Numbers(Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, at):
        return torch.full((4,), at / 24), torch.tensor(at % 3)

def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    criterion = nn.CrossEntropyLoss()
    for inputs, labels in loader:
        update(optimizer, criterion(model(inputs), labels))

def main():
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    hook = TorchHook.attach(model, sys.argv[1], save_interval=1, poll_interval=0.01)
    {body}
    hook.close()

if __name__ == "__main__":
    main()
"""
FORK = """
    train(model, DataLoader(Numbers(), batch_size=8))
    if (child := os.fork()) == 0:
        train(model, DataLoader(Numbers(), batch_size=8))
        assert hook.stats.errors == 0
        sys.exit(0)  # which runs what is to run at exit
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    train(model, DataLoader(Numbers(), batch_size=8))
"""


SPAWN = """
    for _ in range(2):
        loader = DataLoader(
            Numbers(), batch_size=8, num_workers=1, multiprocessing_context="spawn"
        )
        train(model, loader)
"""


@pytest.mark.parametrize("body", [SPAWN, FORK], ids=["spawn", "fork"])
def test_children_leave_the_run_alone(tmp_path: Path, run: Path, body: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.replace("{body}", body.strip()))
    done = subprocess.run(
        [sys.executable, str(script), str(run)],
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    storage = LocalStorage(run)
    found = [read_index(storage, item) for item in storage.list("index/")]
    assert [(index.mode, index.step) for index in found] == [(Mode.TRAIN, at) for at in range(6)]
    assert len({index.meta.run_id for index in found if index.meta}) == 1
    for index in found:
        assert index.entry("CrossEntropyLoss_output_0") is not None
        assert index.entry("gradient/Sequential_0.weight") is not None
    collections = read_collections(storage)
    assert collections is not None
    assert "Sequential_0.weight" in collections.collections["weights"].tensor_names
    assert (run / END_MARKER).exists()

"""A TorchHook in a notebook."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tocsin.tensors import END_MARKER, LocalStorage, read_collections

from tests.frameworks.in_torch.runs import indexes
from tests.notebook import Notebook

IMPORT = """
import torch
from torch import nn
from tocsin_hooks.torch import TorchHook
"""
MODEL = """
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
criterion = nn.CrossEntropyLoss()
inputs, labels = torch.randn(8, 4), torch.randint(0, 3, (8,))
"""
ATTACH = "hook = TorchHook.attach(model, run, save_interval=1, poll_interval=0.01)"
TRAIN = """
for at in range(3):
    optimizer.zero_grad()
    loss = criterion(model(inputs), labels)
    {interrupt}
    loss.backward()
    optimizer.step()
"""
INTERRUPT = "if at == 1: raise KeyboardInterrupt"


@pytest.fixture
def notebook(run: Path) -> Iterator[Notebook]:
    made = Notebook(run)
    made.cells(IMPORT, MODEL)
    yield made
    made.cell("hook.close()")


@pytest.mark.parametrize("second", ["run", "run-2"])
def test_a_cell_that_attaches_is_run_twice(notebook: Notebook, run: Path, second: str) -> None:
    """The second hook takes the first one's place, whose run is whole as far as it goes."""
    other = run.with_name(second)
    notebook.cells(ATTACH, "earlier = hook", TRAIN.format(interrupt=""))
    notebook.names["run"] = other
    notebook.cells(ATTACH)
    before = indexes(run)
    assert [index.step for index in before] == [0, 1, 2]  # attaching has closed the first one
    notebook.cells(TRAIN.format(interrupt=""), "earlier.close()", "hook.close()")
    found = indexes(other)
    assert [index.step for index in found] == [0, 1, 2]
    starts = {index.meta.run_id for index in found if index.meta}
    assert len(starts) == 1
    assert starts.isdisjoint(index.meta.run_id for index in before if index.meta)
    assert all(index.entry("CrossEntropyLoss_output_0") for index in found)
    collections = read_collections(LocalStorage(other))
    assert collections is not None
    assert "Sequential_0.weight" in collections.collections["weights"].tensor_names


@pytest.mark.parametrize("keep", ["kept = model, optimizer", "pass"])
def test_a_cell_that_makes_model_and_hook_is_run_twice(
    notebook: Notebook, run: Path, keep: str
) -> None:
    """The run begins again, whether anything still holds the first model or not."""
    notebook.cells(ATTACH, TRAIN.format(interrupt=""), keep)
    notebook.cells(MODEL, ATTACH, TRAIN.format(interrupt=""), "hook.close()", "kept = None")
    found = indexes(run)
    assert [index.step for index in found] == [0, 1, 2]
    assert len({index.meta.run_id for index in found if index.meta}) == 1


def test_a_cell_that_is_interrupted_costs_at_most_its_step(notebook: Notebook, run: Path) -> None:
    notebook.cells(ATTACH)
    assert isinstance(notebook.cell(TRAIN.format(interrupt=INTERRUPT)), KeyboardInterrupt)
    notebook.cells(TRAIN.format(interrupt=""), "hook.close()")
    found = indexes(run)
    whole = [index.step for index in found if index.entry("gradient/Sequential_0.weight")]
    assert len(whole) == 4
    assert [index.step for index in found] == list(range(whole[-1] + 1))
    assert (run / END_MARKER).exists()

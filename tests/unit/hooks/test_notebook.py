"""A hook in a notebook."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tocsin.tensors import END_MARKER, LocalStorage, read_collections, read_values

from tests.notebook import Notebook

IMPORT = "from tocsin_hooks import Hook, modes"
HOOK = "hook = Hook(run, save_interval=1, poll_interval=0.01)"
TRAIN = """
for at in range(4):
    with hook.step(modes.TRAIN):
        hook.save("loss", at, collection="losses")
        {interrupt}
        hook.save("weight", [at, at], collection="weights")
"""
INTERRUPT = "if at == 1: raise KeyboardInterrupt"


@pytest.fixture
def notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Notebook]:
    for name in ("TRAINING_JOB_NAME", "TOCSIN", "USE_SMDEBUG"):
        monkeypatch.delenv(name, raising=False)
    made = Notebook(tmp_path / "run")
    made.cells(IMPORT)
    yield made
    made.cell("hook.close()")


def test_an_interrupted_cell_costs_its_step_at_most(notebook: Notebook, index_files: Any) -> None:
    notebook.cells(HOOK)
    assert isinstance(notebook.cell(TRAIN.format(interrupt=INTERRUPT)), KeyboardInterrupt)
    notebook.cells(TRAIN.format(interrupt=""), "hook.close()")
    indexes = index_files(notebook.run)
    assert [index.step for index in indexes] == list(range(6))
    assert [index.entry("weight") is not None for index in indexes] == [True, False, *[True] * 4]
    assert (notebook.run / END_MARKER).exists()


@pytest.mark.parametrize("error", ["1 / 0", "raise SystemError('cuda')"])
def test_a_cell_that_fails_can_be_mended(notebook: Notebook, index_files: Any, error: str) -> None:
    notebook.cells(HOOK)
    assert notebook.cell(TRAIN.format(interrupt=error)) is not None
    notebook.cells(TRAIN.format(interrupt=""), "hook.close()")
    assert [index.step for index in index_files(notebook.run)] == list(range(5))


@pytest.mark.parametrize("close", ["hook.close()", "hook.close(finished=False)", "pass"])
def test_a_cell_that_makes_the_hook_is_run_twice(
    notebook: Notebook, index_files: Any, close: str
) -> None:
    """The second hook begins the run again, and the first one writes nothing more into it."""
    notebook.cells(HOOK, TRAIN.format(interrupt=""), "earlier = hook", close)
    notebook.cells(HOOK, TRAIN.format(interrupt=""))
    notebook.cells("hook.save('late', 1.0)", "hook.close()", "earlier.close()")
    indexes = index_files(notebook.run)
    assert [index.step for index in indexes] == list(range(5))
    assert len({index.meta.run_id for index in indexes}) == 1
    *trained, after = (read_values(LocalStorage(notebook.run), each) for each in indexes)
    assert [each["loss"] for each in trained] == [*range(4)]
    assert after == {"late": 1.0}
    collections = read_collections(LocalStorage(notebook.run))
    assert collections is not None
    assert collections.collections["weights"].tensor_names == ("weight",)

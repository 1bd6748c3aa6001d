"""Processes that a training script starts: they share its code, and leave its run alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest
from tocsin.tensors import END_MARKER, LocalStorage, read_collections, read_values

from tests.waiting import PATIENCE

SCRIPT = """
import multiprocessing, os, sys
from concurrent.futures import ProcessPoolExecutor
from tocsin_hooks import Hook, modes

hook = Hook(sys.argv[1], save_interval=1, max_overhead=None, poll_interval=0.01)

def train(steps):
    for _ in range(steps):
        with hook.step(modes.TRAIN):
            hook.save("loss", hook.position["TRAIN"] - 1, collection="losses")

def work(_=None):
    assert not hook.should_stop
    return os.getpid()

def misuse(_=None):
    train(3)
    assert not hook.saving
    hook.close()

def forked(child):
    if (pid := os.fork()) == 0:
        child()
        sys.exit(0)  # runs what is to run at exit
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

def forked_in_a_step(child):
    with hook.step(modes.TRAIN):
        forked(child)
        hook.save("loss", hook.position["TRAIN"] - 1, collection="losses")

def process(method, child):
    started = multiprocessing.get_context(method).Process(target=child)
    started.start()
    started.join()
    assert started.exitcode == 0

def pool(method, child):
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(2, mp_context=context) as executor:
        assert os.getpid() not in list(executor.map(child, range(4)))

if __name__ == "__main__":
    train(6)
    {children}
    train(6)
    hook.close()
"""


@pytest.mark.parametrize(
    ("children", "steps"),
    [
        ("forked(work)", 12),
        ("forked(misuse)", 12),
        ("forked_in_a_step(misuse)", 13),
        ("process('fork', misuse)", 12),
        ("process('spawn', work)", 12),
        ("process('forkserver', work)", 12),
        ("pool('spawn', work)", 12),
    ],
)
def test_a_child_leaves_the_run_of_its_parent_alone(
    tmp_path: Path, index_files: Any, start: Callable[..., Popen[str]], children: str, steps: int
) -> None:
    process = start(SCRIPT.replace("{children}", children), tmp_path)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    assert "Traceback" not in errors
    indexes = index_files(tmp_path)
    assert [index.step for index in indexes] == list(range(steps))
    assert len({index.meta.run_id for index in indexes}) == 1
    storage = LocalStorage(tmp_path)
    assert [read_values(storage, index)["loss"] for index in indexes] == list(range(steps))
    collections = read_collections(storage)
    assert collections is not None
    assert collections.collections["losses"].tensor_names == ("loss",)
    assert (tmp_path / END_MARKER).exists()

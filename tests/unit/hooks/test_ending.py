"""A training that is over while its script goes on."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen
from typing import Any
from weakref import finalize, ref

import pytest
from tocsin.tensors import END_MARKER
from tocsin_hooks import Hook, modes
from tocsin_hooks.capture import capture
from tocsin_hooks.ending import RunsToEnd, ends_cleanly, uncaught
from tocsin_hooks.plan import CapturePlan, Saved

from tests.waiting import PATIENCE, becomes


def train(hook: Hook, steps: int = 3) -> None:
    for _ in range(steps):
        with hook.step(modes.TRAIN):
            hook.save("loss", 1.0, collection="losses")


def own_threads() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if each.name.startswith("tocsin-")}


def test_many_that_leave_hold_neither_threads_nor_memory(tmp_path: Path) -> None:
    """A search for hyperparameters has a model, and a hook, for each trial."""
    before = own_threads()
    hooks = []
    for number in range(20):
        hook = Hook(tmp_path / str(number), save_interval=1, poll_interval=1000)
        train(hook)
        hook.leave()
        hooks.append(ref(hook))
    del hook
    assert becomes(lambda: own_threads() <= before)
    gc.collect()
    assert [each() for each in hooks] == [None] * 20


def test_those_that_are_followed_in_the_same_run_are_let_go(tmp_path: Path) -> None:
    before = own_threads()
    hooks = []
    for _ in range(5):
        hook = Hook(tmp_path, save_interval=1, poll_interval=1000)
        train(hook)
        hooks.append(ref(hook))
    hook.close()
    del hook
    assert becomes(lambda: own_threads() <= before)  # closing does not wait for the poller
    gc.collect()
    assert [each() for each in hooks] == [None] * 5


def test_what_waits_is_written_at_once(storage: Any, index_files: Any) -> None:
    hook = Hook(storage, save_interval=1, poll_interval=0.01)
    storage.gate.clear()
    train(hook)
    hook.begin(modes.TRAIN)
    hook.save("loss", 2.0, collection="losses")
    hook.leave()
    assert not (Path(storage.url) / END_MARKER).exists()
    storage.gate.set()
    assert becomes(lambda: hook.stats.saved == 4)
    train(hook)
    assert not hook.begin(modes.TRAIN)
    hook.close(finished=False)
    assert hook.stats.saved == 4
    assert [index.step for index in index_files(storage)] == [0, 1, 2, 3]
    assert hook.position["TRAIN"] == 8


@pytest.mark.parametrize("finished", [None, True, False])
def test_close_goes_before(tmp_path: Path, finished: bool | None) -> None:
    hook = Hook(tmp_path, save_interval=1)
    train(hook)
    hook.leave()
    hook.close(finished=finished)
    assert (tmp_path / END_MARKER).exists() is (finished is not False)


def test_a_model_whose_finalizer_leaves(tmp_path: Path) -> None:
    class Model:
        def __init__(self) -> None:
            self.self = self  # so that the collector finds it, and nobody before

    hook = Hook(tmp_path, save_interval=1)
    model = Model()
    finalize(model, hook.leave)
    train(hook)
    del model
    gc.collect()
    assert becomes(lambda: hook.stats.saved == 3)
    hook.close()
    assert (tmp_path / END_MARKER).exists()


def test_the_collector_may_run_in_the_background(tmp_path: Path) -> None:
    """In the very thread that writes."""
    hook = Hook(tmp_path, save_interval=1)
    plan = CapturePlan(Saved("late", ("losses",)))

    def finish() -> Any:
        hook.leave()
        return [(plan, each) for each in capture(plan, 2.0)]

    with hook.step(modes.TRAIN):
        hook.put_later(finish, 8)
    assert becomes(lambda: hook.stats.saved == 1)
    hook.close(timeout=PATIENCE)
    assert (tmp_path / END_MARKER).exists()


class Run:
    def __init__(self) -> None:
        self.closed: list[bool] = []

    def close(self, *, marker: bool, timeout: float) -> bool:
        assert timeout > 0
        self.closed.append(marker)
        return True


def test_runs_that_wait_for_the_end() -> None:
    runs, made = RunsToEnd(), [Run() for _ in range(4)]
    now, earlier = uncaught(), (0, 0)
    runs.add(("a", "worker_0"), made[0], now, lambda: False)
    runs.add(("b", "worker_0"), made[1], earlier, lambda: False)
    runs.add(("c", "worker_0"), made[2], now, lambda: True)
    runs.add(("d", "worker_0"), made[3], now, lambda: False)
    assert runs.remove(("d", "worker_0")) is made[3]
    assert runs.remove(("d", "worker_0")) is None
    runs._end()
    assert [each.closed for each in made] == [[True], [False], [False], []]


def test_the_last_error(monkeypatch: pytest.MonkeyPatch) -> None:
    before = uncaught()
    assert ends_cleanly(before)
    monkeypatch.setattr(sys, "last_value", RuntimeError(), raising=False)
    assert not ends_cleanly(before)
    assert ends_cleanly(uncaught())


CHILD = """
import multiprocessing, sys
from tocsin_hooks import Hook, modes

def work(run):
    hook = Hook(run, save_interval=1)
    with hook.step(modes.TRAIN):
        hook.save("loss", 1.0, collection="losses")
    {ending}

if __name__ == "__main__":
    child = multiprocessing.get_context("spawn").Process(target=work, args=(sys.argv[1],))
    child.start()
    child.join()
"""


@pytest.mark.parametrize(
    ("ending", "marker"), [("pass", False), ("1 / 0", False), ("hook.close()", True)]
)
def test_a_process_of_multiprocessing_says_its_end_itself(
    tmp_path: Path, index_files: Any, start: Callable[..., Popen[str]], ending: str, marker: bool
) -> None:
    process = start(CHILD.replace("{ending}", ending), tmp_path)
    process.communicate(timeout=PATIENCE)
    assert [index.step for index in index_files(tmp_path)] == [0]
    assert (tmp_path / END_MARKER).exists() is marker


SPAWNING = """
import multiprocessing, sys
from tocsin_hooks import Hook, modes

hook = Hook(sys.argv[1], save_interval=1)

def work():
    pass

if __name__ == "__main__":
    import os
    for method in ("fork", "spawn", "forkserver"):
        child = multiprocessing.get_context(method).Process(target=work)
        child.start()
        child.join()
        assert not os.path.exists(sys.argv[1] + "/training_job_end.ts")
    {train}
"""


@pytest.mark.parametrize("trains", [False, True])
def test_only_who_has_captured_something_marks_the_end(
    tmp_path: Path, start: Callable[..., Popen[str]], trains: bool
) -> None:
    body = "with hook.step(modes.TRAIN): hook.save('loss', 1.0, collection='losses')"
    process = start(SPAWNING.replace("{train}", body if trains else "pass"), tmp_path)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    assert (tmp_path / END_MARKER).exists() is trains

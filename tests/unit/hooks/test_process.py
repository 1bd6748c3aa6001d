"""What is left of a run when its process ends, in one way or another."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tocsin.tensors import END_MARKER, IndexFile, LocalStorage, read_values

from tests.waiting import PATIENCE

LOOP = """
import atexit, os, signal, sys, threading
import numpy as np
from tocsin_hooks import Hook, modes

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored under nohup, and that is inherited
hook = Hook(sys.argv[1], save_interval=1, max_overhead=None, poll_interval=0.01)

def train(steps):
    for _ in range(steps):
        with hook.step(modes.TRAIN):
            step = hook.position["TRAIN"] - 1
            hook.save("loss", step, collection="losses")
            hook.save("weight", np.full(5000, step), collection="weights", raw=True)
        if step == 10:
            print("running", flush=True)
        if hook.should_stop:
            return

def written(steps):
    while hook.stats.saved < steps:
        train(1)

def again():
    global hook
    hook = Hook(sys.argv[1], save_interval=1)

def sigterm():
    signal.raise_signal(signal.SIGTERM)

def thread(work):
    started = threading.Thread(target=list, args=(work,))
    started.start()
    started.join()

def fork():
    if (pid := os.fork()) == 0:
        sys.exit(0)
    os.waitpid(pid, 0)
    assert not os.path.exists(sys.argv[1] + "/training_job_end.ts")
"""
CELL = "__import__('code').InteractiveInterpreter(globals()).runcode({!r})"
ENDLESS = 10**12
# A shell lets what it starts in the background ignore Ctrl-C, and that is inherited.
CTRL_C = (
    "signal.signal(signal.SIGINT, signal.default_int_handler); signal.raise_signal(signal.SIGINT)"
)

Start = Callable[..., "subprocess.Popen[str]"]


def wait_until_running(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "running\n"


@pytest.mark.parametrize(
    ("script", "code", "steps", "marker"),
    [
        ("train(12); hook.close()", 0, 12, True),
        ("train(12)", 0, 12, True),
        ("train(12); sys.exit()", 0, 12, True),
        ("train(12); raise RuntimeError('out of memory')", 1, 12, False),
        ("train(12); sys.exit(3)", 3, 12, True),  # cannot be seen: the page says so
        ("train(12); hook.close(finished=False); sys.exit(3)", 3, 12, False),
        ("with hook: train(12)", 0, 12, True),
        ("with hook: train(12); sys.exit(0)", 0, 12, True),
        ("with hook: train(12); sys.exit(3)", 3, 12, False),
        ("with hook: train(12); sys.exit('no data')", 1, 12, False),
        (f"train(12); {CTRL_C}", -signal.SIGINT, 12, False),
        ("os.environ['TRAINING_JOB_NAME'] = 'job-1'; train(12); hook.close()", 0, 12, False),
        ("os.environ['TRAINING_JOB_NAME'] = 'job-1'; train(12)", 0, 12, False),
        (f"train(4); {CELL.format('1 / 0')}; train(8)", 0, 12, True),
        (f"train(4); {CELL.format('train(8); 1 / 0')}", 0, 12, False),
        ("hook.stop_on_sigterm(); train(12); sigterm()", 0, 12, False),
        ("train(12); thread(1 / 0 for _ in 'a')", 0, 12, True),
        ("train(12); atexit.register(next, iter(()))", 0, 12, True),
        ("train(12); hook.leave()", 0, 12, True),
        ("train(11); hook.begin(); hook.save('loss', 11); hook.leave()", 0, 12, True),
        ("train(12); hook.leave(); hook.leave(); train(3)", 0, 12, True),
        ("train(12); hook.leave(); hook.close()", 0, 12, True),
        ("train(12); hook.leave(); hook.close(finished=False)", 0, 12, False),
        ("train(12); hook.leave(); raise RuntimeError('in a report')", 1, 12, False),
        ("os.environ['TRAINING_JOB_NAME'] = 'job-1'; train(12); hook.leave()", 0, 12, False),
        ("hook.stop_on_sigterm(); train(12); hook.leave(); written(12); sigterm()", 0, 12, False),
        ("train(12); hook.leave(); written(12); fork()", 0, 12, True),
        ("train(12); again(); train(5)", 0, 12, True),
        ("train(12); again(); train(5); hook.close(finished=False)", 0, 12, False),
        ("train(12); hook.leave(); again(); train(5); hook.close(finished=False)", 0, 12, False),
    ],
)
def test_all_that_was_saved_is_there_however_the_script_ends(
    tmp_path: Path,
    index_files: Any,
    start: Start,
    script: str,
    code: int,
    steps: int,
    marker: bool,
) -> None:
    process = start(LOOP + script, tmp_path)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == code, errors
    assert [index.step for index in index_files(tmp_path)] == list(range(steps))
    assert (tmp_path / END_MARKER).exists() is marker


def assert_whole(run: Path, indexes: list[IndexFile]) -> None:
    """Whatever is visible can be read, and nothing that was visible before it is missing."""
    assert indexes
    assert not (run / END_MARKER).exists()
    before = None
    for index in indexes:
        assert index.meta is not None
        assert index.meta.prev_step == before
        before = index.step
        values = read_values(LocalStorage(run), index)
        assert values["loss"] == index.step
        assert np.asarray(values["weight"]).tolist() == [index.step] * 5000


@pytest.mark.parametrize("number", ["SIGTERM", "SIGKILL", "SIGABRT", "SIGHUP"])
def test_what_is_visible_after_a_violent_end_is_whole(
    tmp_path: Path, index_files: Any, start: Start, number: str
) -> None:
    script = f"written(3); print('written', flush=True); train({ENDLESS})"
    process = start(LOOP + script, tmp_path)
    assert process.stdout is not None
    assert "written\n" in iter(process.stdout.readline, "")
    process.send_signal(getattr(signal, number))
    process.communicate(timeout=PATIENCE)
    assert process.returncode == -getattr(signal, number)
    assert_whole(tmp_path, index_files(tmp_path))


def test_what_is_visible_after_an_exit_without_goodbye_is_whole(
    tmp_path: Path, index_files: Any, start: Start
) -> None:
    process = start(LOOP + "written(20); train(5); os._exit(3)", tmp_path)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 3
    indexes = index_files(tmp_path)
    assert_whole(tmp_path, indexes)
    assert len(indexes) >= 20


@pytest.mark.parametrize("job", [{}, {"TRAINING_JOB_NAME": "job-1"}])
def test_sigterm_becomes_a_stop_request_where_the_script_asked_for_it(
    tmp_path: Path, index_files: Any, start: Start, job: dict[str, str]
) -> None:
    script = f"""
hook.stop_on_sigterm()
train({ENDLESS})
hook.close()
print(hook.position["TRAIN"], hook.stats.saved + hook.stats.dropped, flush=True)
"""
    process = start(LOOP + script, tmp_path, **job)
    wait_until_running(process)
    process.send_signal(signal.SIGTERM)
    output, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    begun, accounted = map(int, output.split())
    assert begun == accounted
    assert index_files(tmp_path)
    assert not (tmp_path / END_MARKER).exists()


def test_a_second_sigterm_ends_a_script_that_does_not_listen(tmp_path: Path, start: Start) -> None:
    script = """
import time
hook.stop_on_sigterm()
train(12)
while not hook.should_stop:
    time.sleep(0.001)
print("asked", flush=True)
while True:
    time.sleep(0.001)
"""
    process = start(LOOP + script, tmp_path)
    wait_until_running(process)
    process.send_signal(signal.SIGTERM)
    assert process.stdout is not None
    assert process.stdout.readline() == "asked\n"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == -signal.SIGTERM


def test_sigterm_ends_a_forked_child_as_ever(tmp_path: Path, start: Start) -> None:
    script = """
hook.stop_on_sigterm()
reading, writing = os.pipe()
if (child := os.fork()) == 0:
    os.write(writing, b"x")
    while True:
        signal.pause()
os.read(reading, 1)
os.kill(child, signal.SIGTERM)
code = os.waitstatus_to_exitcode(os.wait()[1])
hook.close()
sys.exit(0 if code == -signal.SIGTERM and not hook.should_stop else 1)
"""
    process = start(LOOP + script, tmp_path)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors


def test_a_script_that_closes_the_hook_in_its_own_handler_ends(
    tmp_path: Path, start: Start
) -> None:
    script = f"""
signal.signal(signal.SIGTERM, lambda *_: (hook.close(finished=False), sys.exit(0)))
train({ENDLESS})
"""
    process = start(LOOP + script, tmp_path)
    wait_until_running(process)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    assert not (tmp_path / END_MARKER).exists()


def test_the_import_is_light() -> None:
    heavy = {"boto3", "botocore", "typer", "rich", "pydantic", "yaml", "sklearn", "torch", "scipy"}
    script = f"import sys, tocsin_hooks; print(sorted({heavy} & set(sys.modules)))"
    output = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    assert output.stdout == "[]\n"

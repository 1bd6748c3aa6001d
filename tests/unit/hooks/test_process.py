"""What is left of a run when its process ends, in one way or another."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tocsin.tensors import END_MARKER, LocalStorage, read_values

LOOP = """
import sys
from tocsin_hooks import Hook, modes

hook = Hook(sys.argv[1], save_interval=1, poll_interval=0.01)

def train(steps):
    for step in range(steps):
        with hook.step(modes.TRAIN):
            hook.save("loss", step, collection="losses")
        if step == 10:
            print("running", flush=True)
        if hook.should_stop:
            return
"""
ENDLESS = 10**12


def start(run: Path, script: str, **environment: str) -> subprocess.Popen[str]:
    inherited = {k: v for k, v in os.environ.items() if k not in ("TRAINING_JOB_NAME", "TOCSIN")}
    return subprocess.Popen(
        [sys.executable, "-c", LOOP + script, str(run)],
        env={**inherited, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_until_running(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "running\n"


@pytest.mark.parametrize(
    ("script", "code", "steps", "marker"),
    [
        ("train(12); hook.close()", 0, 12, True),
        ("train(12)", 0, 12, False),
        ("train(12); raise RuntimeError('out of memory')", 1, 12, False),
        ("train(12); sys.exit(3)", 3, 12, False),
        ("with hook: train(12)", 0, 12, True),
        ("with hook: train(12); sys.exit(0)", 0, 12, False),
        (
            "import os; train(6); pid = os.fork(); pid or sys.exit(0); os.wait(); train(6)",
            0,
            12,
            False,
        ),
    ],
)
def test_all_that_was_saved_is_there_however_the_script_ends(
    tmp_path: Path, index_files: Any, script: str, code: int, steps: int, marker: bool
) -> None:
    process = start(tmp_path, script)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code, errors
    assert [index.step for index in index_files(tmp_path)] == list(range(steps))
    assert (tmp_path / END_MARKER).exists() is marker


def test_sigterm_ends_a_script_that_did_not_ask_for_it(tmp_path: Path, index_files: Any) -> None:
    process = start(tmp_path, f"train({ENDLESS})")
    wait_until_running(process)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGTERM
    assert not (tmp_path / END_MARKER).exists()
    for index in index_files(tmp_path):
        value = read_values(LocalStorage(tmp_path), index)["loss"]
        assert value == index.step  # what is visible is whole


@pytest.mark.parametrize("job", [{}, {"TRAINING_JOB_NAME": "job-1"}])
def test_sigterm_becomes_a_stop_request_where_the_script_asked_for_it(
    tmp_path: Path, index_files: Any, job: dict[str, str]
) -> None:
    script = f"""
hook.stop_on_sigterm()
train({ENDLESS})
hook.close()
print(hook.position["TRAIN"], hook.stats.saved + hook.stats.dropped, flush=True)
"""
    process = start(tmp_path, script, **job)
    wait_until_running(process)
    process.send_signal(signal.SIGTERM)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    begun, accounted = map(int, output.split())
    assert begun == accounted
    assert index_files(tmp_path)
    assert not (tmp_path / END_MARKER).exists()


def test_a_second_sigterm_ends_a_script_that_does_not_listen(tmp_path: Path) -> None:
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
    process = start(tmp_path, script)
    wait_until_running(process)
    process.send_signal(signal.SIGTERM)
    assert process.stdout is not None
    assert process.stdout.readline() == "asked\n"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGTERM


def test_sigterm_ends_a_forked_child_as_ever(tmp_path: Path) -> None:
    script = """
import os, signal
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
    process = start(tmp_path, script)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors


def test_a_script_that_closes_the_hook_in_its_own_handler_ends(tmp_path: Path) -> None:
    script = f"""
import signal
signal.signal(signal.SIGTERM, lambda *_: (hook.close(finished=False), sys.exit(0)))
train({ENDLESS})
"""
    process = start(tmp_path, script)
    wait_until_running(process)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert not (tmp_path / END_MARKER).exists()


def test_the_import_is_light() -> None:
    heavy = {"boto3", "botocore", "typer", "rich", "pydantic", "yaml", "sklearn", "torch", "scipy"}
    script = f"import sys, tocsin_hooks; print(sorted({heavy} & set(sys.modules)))"
    output = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert output.stdout == "[]\n"

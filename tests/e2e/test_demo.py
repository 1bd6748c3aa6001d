"""The command itself, and that Ctrl-C at any time leaves nothing behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.waiting import PATIENCE, becomes

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "tocsin", "demo", "--scenario", "vanishing"]
# The command, but that only a stop ends the training, and the demo waits for it.
PATIENT = f"""
import runpy, sys
from dataclasses import replace
from local import demo

demo._PATIENCE = {PATIENCE}
demo._SCENARIOS = {{k: replace(v, planned_steps=1_000_000) for k, v in demo._SCENARIOS.items()}}
sys.argv = ["tocsin", *{COMMAND[3:]}, "--json"]
runpy.run_module("tocsin", run_name="__main__")
"""


def children_marked(mark: str) -> list[int]:
    """Living processes that have the mark in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:  # it ended while we looked, or is not ours
            continue
    return found


def test_the_document_on_stdout_and_nothing_else() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PATIENT], cwd=ROOT, capture_output=True, text=True, check=True
    )
    document = json.loads(done.stdout)
    assert {
        "scenario",
        "job",
        "run",
        "planned_steps",
        "stopped",
        "stopped_at_step",
        "rules",
        "email",
        "sms",
        "metric",
        "latency_ms",
        "report",
    } <= set(document)
    assert document["stopped"]


@pytest.mark.parametrize("after", ["starting", "Training"])  # half of it is there, and all of it
def test_ctrl_c_leaves_no_process_and_no_port(after: str) -> None:
    mark = f"TOCSIN_TEST_MARK={os.getpid()}-{after}"
    name, _, value = mark.partition("=")
    process = subprocess.Popen(
        COMMAND,
        cwd=ROOT,
        env={**os.environ, name: value, "COLUMNS": "200", "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # What a shell starts in the background ignores Ctrl-C, and that is inherited.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout
    assert process.stderr
    for line in process.stdout:
        if re.search(after, line):
            break
    os.killpg(process.pid, signal.SIGINT)  # as a terminal sends it: to all in the foreground
    rest = process.stdout.read() + process.stderr.read()
    assert process.wait(PATIENCE) != 0, rest
    assert "Traceback" not in rest
    assert becomes(lambda: not children_marked(mark)), children_marked(mark)

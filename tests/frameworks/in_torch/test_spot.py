"""A spot instance is taken away, and the job goes on from its checkpoint in the same run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tocsin.evaluation import check, document
from tocsin.model import Mode
from tocsin.tensors import END_MARKER, IndexFile, LocalStorage, open_storage, read_index

from tests.waiting import PATIENCE

SCRIPT = Path(__file__).parents[3] / "examples" / "digits_torch.py"
STEPS = 60
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def start(run: Path, tmp_path: Path) -> Iterator[Start]:
    """Starts the training, from its checkpoint if there is one."""
    started: list[subprocess.Popen[str]] = []

    def begin(steps: int) -> subprocess.Popen[str]:
        options = ("--steps", str(steps), "--checkpoint", str(tmp_path / "model.pt"))
        every = ("--save-interval", "5", "--eval-interval", "10")
        process = subprocess.Popen(
            [sys.executable, str(SCRIPT), "--out", str(run), *options, *every],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def interrupted(process: subprocess.Popen[str], after: str) -> int:
    """SIGTERM once it has printed a line that begins so; the last step that it did."""
    assert process.stdout is not None
    while not process.stdout.readline().startswith(after):
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    output, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    assert output.splitlines()[-1].startswith("stop requested after step "), output
    return int(output.split()[-1])


def indexes(run: Path, mode: Mode = Mode.TRAIN) -> list[IndexFile]:
    storage = LocalStorage(run)
    found = [read_index(storage, item) for item in storage.list("index/")]
    return [index for index in found if index.mode is mode]


def test_it_is_one_run_whose_steps_go_on(run: Path, start: Start) -> None:
    last = interrupted(start(1_000_000), after="step 10:")
    assert not (run / END_MARKER).exists()
    assert document(check(open_storage(run))[0])["finished"] is False
    first_start = len(indexes(run))

    steps = last + 1 + STEPS
    again = start(steps)
    _, errors = again.communicate(timeout=PATIENCE)
    assert again.returncode == 0, errors
    found = indexes(run)
    assert [index.mode_step for index in found] == list(range(0, steps, 5))
    everything = [index.step for index in (*found, *indexes(run, Mode.EVAL))]
    assert len(set(everything)) == len(everything)

    metas = [index.meta for index in found]
    assert all(metas)
    starts: list[Any] = [meta.run_id for meta in metas if meta]
    assert starts == [starts[0]] * first_start + [starts[-1]] * (len(found) - first_start)
    assert starts[0] != starts[-1]
    resumed = {meta.resumed_from for meta in metas[first_start:] if meta}
    assert len(resumed) == 1
    assert found[first_start - 1].step <= resumed.pop() < found[first_start].step  # type: ignore[operator] # no None
    assert (run / END_MARKER).exists()

    checkpoint, report = check(open_storage(run))
    assert not report.log
    assert checkpoint.run_ids == {"worker_0": starts[-1]}
    assert checkpoint.superseded == (starts[0],)  # the restart is recorded
    verdicts = document(checkpoint)
    assert verdicts["steps"]["evaluated"] == len(everything)
    assert {each["RuleEvaluationStatus"] for each in verdicts["rules"]}.isdisjoint(
        {"IssuesFound", "Error"}
    )

"""A job that ends before its time and is started again from its checkpoint, into the same run."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen
from typing import Any

import numpy as np
import pytest
from tocsin.evaluation import check, document
from tocsin.tensors import END_MARKER, open_storage

from tests.waiting import PATIENCE

# Least squares by gradient descent; a checkpoint every ten steps and at the end.
SCRIPT = """
import json, os, signal, sys
from pathlib import Path
import numpy as np
from tocsin_hooks import Hook, modes

run, ends_at, ending = sys.argv[1], int(sys.argv[2]), sys.argv[3]
checkpoint = Path(run + ".json")
state = json.loads(checkpoint.read_text()) if checkpoint.exists() else None
weight = np.array(state["weight"] if state else [0.0, 0.0])
resumed = state and state["tocsin"]
hook = Hook(run, save_interval=1, max_overhead=None, poll_interval=0.01, resumed_from=resumed)
hook.stop_on_sigterm()
random = np.random.default_rng(0)

def save_checkpoint():
    state = {"weight": weight.tolist(), "tocsin": hook.position}
    checkpoint.with_suffix(".tmp").write_text(json.dumps(state))
    checkpoint.with_suffix(".tmp").replace(checkpoint)

while hook.position["TRAIN"] < 60 and not hook.should_stop:
    with hook.step(modes.TRAIN):
        x = random.standard_normal((32, 2))
        error = x @ weight - x @ [3.0, -2.0]
        gradient = x.T @ error / len(x)
        hook.save("loss", np.mean(error**2), collection="losses")
        hook.save("weight", weight, collection="weights")
        hook.save("gradient/weight", gradient, collection="gradients")
        weight -= 0.02 * gradient
    if hook.position["TRAIN"] == ends_at:
        exec(ending)
    if hook.position["TRAIN"] % 10 == 0:
        save_checkpoint()
save_checkpoint()
hook.close()
"""
SIGTERM = "signal.raise_signal(signal.SIGTERM)"
SIGKILL = "signal.raise_signal(signal.SIGKILL)"


def finished(process: Popen[str]) -> int:
    _, errors = process.communicate(timeout=PATIENCE)
    assert "Traceback" not in errors or process.returncode, errors
    return process.returncode


def position(run: Path) -> int:
    return int(json.loads(run.with_suffix(".json").read_text())["tocsin"]["TRAIN"])


def verdicts(run: Path) -> dict[str, Any]:
    checkpoint, report = check(open_storage(run))
    assert not report.log
    return document(checkpoint)


@pytest.mark.parametrize("job", [{}, {"TRAINING_JOB_NAME": "job-1"}])
def test_a_spot_restart_goes_on_where_the_job_was(
    tmp_path: Path, index_files: Any, start: Callable[..., Popen[str]], job: dict[str, str]
) -> None:
    run = tmp_path / "run"
    assert finished(start(SCRIPT, run, 23, SIGTERM, **job)) == 0
    assert position(run) == 23
    assert not (run / END_MARKER).exists()
    interrupted = verdicts(run)
    assert interrupted["finished"] is False
    assert {rule["RuleEvaluationStatus"] for rule in interrupted["rules"]} == {"InProgress"}

    assert finished(start(SCRIPT, run, 0, "", **job)) == 0
    indexes = index_files(run)
    assert [index.step for index in indexes] == list(range(60))
    starts = [index.meta.run_id for index in indexes]
    assert starts == [starts[0]] * 23 + [starts[-1]] * 37
    assert starts[0] != starts[-1]
    assert [index.meta.resumed_from for index in indexes] == [None] * 23 + [22] * 37
    assert (indexes[22].meta.prev_step, indexes[23].meta.prev_step) == (21, None)
    assert (run / END_MARKER).exists() is not bool(job)

    whole = verdicts(run)
    assert whole["steps"] == {"evaluated": 60, "first": 0, "last": 59}
    assert [r["Rule"] for r in whole["rules"] if r["RuleEvaluationStatus"] == "IssuesFound"] == []
    checkpoint, _ = check(open_storage(run))
    assert checkpoint.run_ids == {"worker_0": starts[-1]}
    assert checkpoint.superseded == (starts[0],)


def test_steps_after_the_checkpoint_are_done_again(
    tmp_path: Path, index_files: Any, start: Callable[..., Popen[str]]
) -> None:
    run = tmp_path / "run"
    # What was saved before the end is visible: the run looks like that of a job that still trains.
    killed = f"hook.close(finished=False); {SIGKILL}"
    assert finished(start(SCRIPT, run, 23, killed)) == -signal.SIGKILL
    assert position(run) == 20
    first = index_files(run)
    assert [index.step for index in first] == list(range(23))

    assert finished(start(SCRIPT, run, 0, "")) == 0
    indexes = index_files(run)
    assert [index.step for index in indexes] == list(range(60))
    assert [index.meta.resumed_from for index in indexes] == [None] * 20 + [19] * 40
    again = {index.meta.run_id for index in indexes[20:]}
    assert again.isdisjoint(index.meta.run_id for index in first)
    assert len(again) == 1
    whole = verdicts(run)
    assert (whole["finished"], whole["steps"]["evaluated"]) == (True, 60)


def test_a_job_that_is_started_again_and_again_is_one_run(
    tmp_path: Path, index_files: Any, start: Callable[..., Popen[str]]
) -> None:
    run = tmp_path / "run"
    for ends_at in (7, 8, 31):
        assert finished(start(SCRIPT, run, ends_at, SIGTERM)) == 0
    assert finished(start(SCRIPT, run, 45, "raise RuntimeError('out of memory')")) == 1
    assert finished(start(SCRIPT, run, 0, "")) == 0
    indexes = index_files(run)
    assert [index.step for index in indexes] == list(range(60))
    resumed = [None] * 7 + [6] + [7] * 23 + [30] * 9 + [39] * 20
    assert [index.meta.resumed_from for index in indexes] == resumed
    losses = [index.entry("loss").summary.mean for index in indexes]
    assert np.mean(losses[:10]) > 2 * np.mean(losses[-10:])
    checkpoint, _ = check(open_storage(run))
    assert len(checkpoint.superseded) == 4
    assert verdicts(run)["finished"] is True

"""Several processes of one training."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tocsin import create_trial
from tocsin.evaluation import check
from tocsin.model import RuleStatus
from tocsin.tensors import LocalStorage
from tocsin_hooks.torch.workers import worker_options

from tests.waiting import PATIENCE

SCRIPT = Path(__file__).parent / "two_processes.py"
TORCHRUN = {"TORCHELASTIC_RUN_ID": "ab", "MASTER_PORT": "7", "TORCHELASTIC_RESTART_COUNT": "1"}
SLURM = {"SLURM_JOB_ID": "12", "SLURM_STEP_ID": "0"}


@pytest.mark.parametrize("how", ["wrapped", "inner", "one"])
def test_two_processes(how: str, run: Path) -> None:
    done = subprocess.run(
        [sys.executable, SCRIPT, run, how],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    trial = create_trial(str(run))
    workers = ["worker_0"] if how == "one" else ["worker_0", "worker_1"]
    assert trial.workers() == workers
    assert trial.steps() == [0, 2, 4]
    gradient = trial.tensor("gradient/Sequential_0.weight")
    inputs = trial.tensor("Sequential_input_0")
    for step in trial.steps():
        norms = {gradient.summary(step, worker=worker).l2 for worker in workers}
        assert len(norms) == 1  # they have been averaged
        assert len({inputs.summary(step, worker=worker).l2 for worker in workers}) == len(workers)
    assert "1_output_0" in trial.tensor_names(collection="relu_output")
    assert (run / "training_job_end.ts").exists()
    checkpoint, _ = check(LocalStorage(run))
    statuses = {each.status for each in checkpoint.rules.values()}
    assert RuleStatus.ISSUES_FOUND not in statuses
    assert RuleStatus.ERROR not in statuses


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, {"worker": "worker_0", "num_workers": 1}),
        ({"RANK": "1", "WORLD_SIZE": "4"}, {"worker": "worker_1", "num_workers": 4}),
        ({"RANK": "4", "WORLD_SIZE": "4"}, {"worker": "worker_0", "num_workers": 1}),
        ({"RANK": "one"}, {"worker": "worker_0", "num_workers": 1}),
        (
            {"RANK": "1", "WORLD_SIZE": "2", **TORCHRUN},
            {"worker": "worker_1", "num_workers": 2, "run_id": "ab-7-1"},
        ),
        (
            {"RANK": "1", "WORLD_SIZE": "2", **TORCHRUN, "TORCHELASTIC_RUN_ID": "none"},
            {"worker": "worker_1", "num_workers": 2},
        ),
        (
            {"RANK": "0", "WORLD_SIZE": "2", **SLURM},
            {"worker": "worker_0", "num_workers": 2, "run_id": "slurm-12-0-0"},
        ),
        ({"RANK": "0", "WORLD_SIZE": "1", **SLURM}, {"worker": "worker_0", "num_workers": 1}),
    ],
)
def test_which_worker_this_is(environment: dict[str, str], expected: dict[str, Any]) -> None:
    assert worker_options(environment) == expected

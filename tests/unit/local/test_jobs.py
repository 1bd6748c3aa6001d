from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from local.job import LocalJob
from local.jobs import LocalJobs, RequestError
from local.reaper import Reaper
from tests.waiting import PATIENCE, becomes

GRACE = 2 * PATIENCE  # nobody waits so long for what it ends
SLEEP = "import time; print('up', flush=True); time.sleep(3600)"
STUBBORN = "import signal; signal.signal(15, signal.SIG_IGN); " + SLEEP
OBEDIENT = "import signal, sys; signal.signal(15, lambda *_: sys.exit(0)); " + SLEEP


def request(name: str, code: str = "", **more: Any) -> dict[str, Any]:
    algorithm = {"ContainerEntrypoint": [sys.executable], "ContainerArguments": ["-c", code]}
    return {"TrainingJobName": name, "AlgorithmSpecification": algorithm, **more}


@pytest.fixture
def published() -> list[LocalJob]:
    return []


@pytest.fixture
def jobs(reaper: Reaper, published: list[LocalJob]) -> Iterator[LocalJobs]:
    with LocalJobs(reaper, {"GIVEN": "1"}, published.append, GRACE) as jobs:
        yield jobs


def wait_until_up(jobs: LocalJobs, name: str) -> None:
    log = jobs.get(name).log
    assert becomes(lambda: log.exists() and log.read_text() == "up\n")


@pytest.mark.parametrize(
    ("code", "status", "exit_code"),
    [("print('done')", "Completed", 0), ("raise SystemExit(3)", "Failed", 3)],
)
def test_a_job_ends_as_its_process_ends(
    jobs: LocalJobs, code: str, status: str, exit_code: int
) -> None:
    jobs.create(request("j1", code))
    job = jobs.wait("j1", PATIENCE)
    assert (job.status, job.exit_code) == (status, exit_code)
    assert [change.status for change in job.changes] == ["Starting", "Training", status]
    assert (job.failure is None) == (status == "Completed")


def test_output_goes_to_the_log(jobs: LocalJobs) -> None:
    jobs.create(request("j1", "import sys; print('out'); print('err', file=sys.stderr)"))
    assert sorted(jobs.wait("j1", PATIENCE).log.read_text().split()) == ["err", "out"]


def test_a_job_that_fails_shows_its_last_lines(
    jobs: LocalJobs, caplog: pytest.LogCaptureFixture
) -> None:
    jobs.create(request("j1", "print('\\n' * 20); raise ValueError('no data')"))
    failure = jobs.wait("j1", PATIENCE).failure or ""
    assert failure.startswith("AlgorithmError: the job's process failed, exit code: 1; its last")
    assert failure.endswith("\nValueError: no data")
    assert "training job j1 failed: AlgorithmError" in caplog.text


def test_a_job_starts_in_the_folder_that_its_request_names(jobs: LocalJobs, tmp_path: Path) -> None:
    code = "import pathlib; print(pathlib.Path.cwd())"
    jobs.create(request("j1", code, Environment={"TOCSIN_LOCAL_FOLDER": str(tmp_path)}))
    assert jobs.wait("j1", PATIENCE).log.read_text().strip() == str(tmp_path)


def test_the_process_finds_its_parameters_as_in_sagemaker(jobs: LocalJobs) -> None:
    code = """
import json, os, pathlib
file = pathlib.Path("input/config/hyperparameters.json")
assert file.resolve() == pathlib.Path(os.environ["SM_INPUT_CONFIG_DIR"], file.name).resolve()
assert pathlib.Path(os.environ["SM_MODEL_DIR"]).is_dir()
print(json.dumps([json.loads(file.read_text()), dict(os.environ)]))
"""
    hyperparameters = {"learning-rate": "0.1", "epochs": "3"}
    environment = {"MINE": "2", "TRAINING_JOB_NAME": "forged"}
    jobs.create(request("j1", code, HyperParameters=hyperparameters, Environment=environment))
    job = jobs.wait("j1", PATIENCE)
    assert job.status == "Completed", job.log.read_text()
    in_file, found = json.loads(job.log.read_text())
    assert in_file == json.loads(found["SM_HPS"]) == hyperparameters
    assert found["SM_HP_LEARNING_RATE"] == "0.1"
    assert (found["GIVEN"], found["MINE"]) == ("1", "2")
    assert (found["TRAINING_JOB_NAME"], found["TRAINING_JOB_ARN"]) == ("j1", job.arn)


@pytest.mark.parametrize(
    ("code", "grace", "exit_code"),
    [(SLEEP, GRACE, -15), (OBEDIENT, GRACE, 0), (STUBBORN, 0.3, -9)],
)
def test_a_stopped_job_is_stopped_however_its_process_takes_it(
    reaper: Reaper, code: str, grace: float, exit_code: int
) -> None:
    with LocalJobs(reaper, {}, lambda job: None, grace) as jobs:
        jobs.create(request("j1", code))
        wait_until_up(jobs, "j1")
        before = time.time()
        jobs.stop("j1")
        assert jobs.get("j1").at("Stopping") is not None
        job = jobs.wait("j1", PATIENCE)
    assert (job.status, job.exit_code) == ("Stopped", exit_code)
    assert before <= (job.at("Stopping") or 0) <= (job.at("Stopped") or 0)
    assert (job.at("Stopped") or 0) - before >= 0.3 or code != STUBBORN


def test_a_job_that_takes_too_long_is_stopped(jobs: LocalJobs) -> None:
    jobs.create(request("j1", SLEEP, StoppingCondition={"MaxRuntimeInSeconds": 0.2}))
    job = jobs.wait("j1", PATIENCE)
    assert (job.status, job.changes[-1].status) == ("Stopped", "MaxRuntimeExceeded")


def test_a_command_that_does_not_exist_fails_the_job(jobs: LocalJobs) -> None:
    jobs.create(
        {
            "TrainingJobName": "j1",
            "AlgorithmSpecification": {"ContainerEntrypoint": ["no-such-command"]},
        }
    )
    job = jobs.wait("j1", PATIENCE)
    assert job.status == "Failed"
    assert "no-such-command" in (job.failure or "")


def test_changes_are_published_once_and_in_order(reaper: Reaper, published: list[LocalJob]) -> None:
    with LocalJobs(reaper, {}, published.append, GRACE) as jobs:
        jobs.create(request("j1", SLEEP))
        wait_until_up(jobs, "j1")
        jobs.stop("j1")
        jobs.wait("j1", PATIENCE)
        becomes(lambda: len(published) == 4)
    assert [job.changes[-1].status for job in published] == [
        "Starting",
        "Training",
        "Stopping",
        "Stopped",
    ]


def test_a_listener_that_fails_does_not_disturb_the_job(
    reaper: Reaper, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(job: LocalJob) -> None:
        raise RuntimeError("nobody there")

    with caplog.at_level(logging.ERROR), LocalJobs(reaper, {}, fail) as jobs:
        jobs.create(request("j1", "pass"))
        assert jobs.wait("j1", PATIENCE).status == "Completed"
    assert "nobody there" in caplog.text


def test_at_the_end_no_job_runs(reaper: Reaper, published: list[LocalJob]) -> None:
    with LocalJobs(reaper, {}, published.append, GRACE) as jobs:
        jobs.create(request("j1", STUBBORN))
        wait_until_up(jobs, "j1")
        began = time.monotonic()
    assert time.monotonic() - began < PATIENCE
    assert jobs.get("j1").exit_code == -9
    assert "Failed" not in [job.status for job in published]


@pytest.mark.parametrize(
    ("name", "algorithm", "message"),
    [
        ("../j", {"ContainerEntrypoint": ["true"]}, "TrainingJobName: '../j' is not a"),
        (None, {"ContainerEntrypoint": ["true"]}, "TrainingJobName: None is not a"),
        ("j1", {}, "ContainerEntrypoint is missing"),
        ("j1", None, "ContainerEntrypoint is missing"),
    ],
)
def test_a_request_that_cannot_be_run_is_refused(
    jobs: LocalJobs, name: Any, algorithm: Any, message: str
) -> None:
    with pytest.raises(RequestError, match=message):
        jobs.create({"TrainingJobName": name, "AlgorithmSpecification": algorithm})
    assert jobs.all() == []


def test_a_name_is_used_once(jobs: LocalJobs) -> None:
    jobs.create(request("j1"))
    jobs.wait("j1", PATIENCE)
    with pytest.raises(RequestError, match="already exists") as refused:
        jobs.create(request("j1"))
    assert refused.value.code == "ResourceInUse"


def test_what_is_over_cannot_be_stopped(jobs: LocalJobs) -> None:
    jobs.create(request("j1"))
    jobs.wait("j1", PATIENCE)
    with pytest.raises(RequestError, match="is in status Completed"):
        jobs.stop("j1")
    with pytest.raises(RequestError, match="Requested resource not found"):
        jobs.stop("j2")


def test_tags_are_added(jobs: LocalJobs) -> None:
    job = jobs.create(request("j1", Tags=[{"Key": "a", "Value": "1"}]))
    assert jobs.tag(job.arn, {"b": "2"}) == {"a": "1", "b": "2"}
    assert jobs.wait("j1", PATIENCE).tags == {"a": "1", "b": "2"}


def test_jobs_run_side_by_side(jobs: LocalJobs) -> None:
    for name in ("j1", "j2", "j3"):
        jobs.create(request(name, SLEEP))
    for name in ("j1", "j2", "j3"):
        wait_until_up(jobs, name)
    assert [job.name for job in jobs.all()] == ["j1", "j2", "j3"]
    jobs.stop("j2")
    assert jobs.wait("j2", PATIENCE).status == "Stopped"
    assert jobs.get("j1").status == jobs.get("j3").status == "InProgress"


def test_the_log_lies_in_the_folder_of_the_job(jobs: LocalJobs) -> None:
    log = jobs.create(request("j1")).log
    assert log.relative_to(jobs.wait("j1", PATIENCE).log.parents[1]) == Path("j1/log")

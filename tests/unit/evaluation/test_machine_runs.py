"""A machine run belongs to the job of its training."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tocsin.evaluation import EvaluationReport, Hint, JobDescription, MemoryJobs, memory_ports
from tocsin.evaluation.reconciliation import reconcile
from tocsin.tensors import open_storage
from tocsin.watch import Watch, to_watch
from tocsin_hooks.machine import Minute, write_minutes

SLOW = Minute(durations={"TRAIN": [0.1] * 100, "wait": [0.3] * 100})


def looked(run: Path, watch: Watch | None = None, **job: Any) -> Any:
    ports = memory_ports(open_storage(run), lambda: 1e10)
    jobs = {"j1": JobDescription(outputs=(str(run.parents[1]),), **job)}
    ports = replace(ports, jobs=MemoryJobs(jobs), default=watch or Watch())
    reconcile(Hint(str(run)), ports, EvaluationReport(), deadline=math.inf)
    return ports


@pytest.mark.parametrize(
    "where", ["jobs/j1/profiler-output", "jobs/j1/debug-output/profiler-output"]
)
def test_the_end_of_the_job_finds_it(where: str, tmp_path: Path) -> None:
    run = tmp_path / where
    write_minutes(str(run), [SLOW])
    storage = open_storage(run)
    ports = memory_ports(storage, lambda: 1e10)
    job = JobDescription(outputs=(str(tmp_path / "jobs"),))
    ports = replace(ports, jobs=MemoryJobs({"j1": job}))
    reconcile(Hint(storage.url), ports, EvaluationReport(), deadline=math.inf)
    assert ports.coordination.runs_of("j1") == [storage.url]


def test_an_alert_names_the_job_and_inhibits(tmp_path: Path) -> None:
    run = tmp_path / "j1" / "profiler-output"
    write_minutes(str(run), [SLOW] * 6)
    ports = looked(run)
    (fired,) = [
        event
        for event in ports.publisher.published
        if getattr(event, "rule_configuration_name", "") == "InputBottleneck"
    ]
    assert fired.training_job_name == "j1"
    assert fired.rule_evaluation_status == "IssuesFound"
    assert "waits for data 50 % of the time" in fired.status_details


def test_rules_of_the_job_leave_it_those_of_the_profile(tmp_path: Path) -> None:
    """A job's own rules, which are about its tensors, say nothing of its machine."""
    run = tmp_path / "j1" / "profiler-output"
    write_minutes(str(run), [SLOW] * 6)
    ports = looked(run, to_watch({"rules": ["LossSpike"]}))
    rules = ports.checkpoints.load(str(run)).checkpoint.rules
    assert "InputBottleneck" in rules
    assert "LossSpike" not in rules

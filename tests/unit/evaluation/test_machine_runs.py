"""A machine run belongs to the job of its training."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tocsin.alerts import AlertGroup, RuleAlert
from tocsin.alerts.inhibit import inhibit
from tocsin.alerts.stage import Batch, View
from tocsin.evaluation import (
    EvaluationReport,
    Hint,
    JobDescription,
    MemoryJobs,
    check,
    document,
    memory_ports,
)
from tocsin.evaluation.reconciliation import reconcile
from tocsin.events import StatusChange
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


@pytest.mark.parametrize(
    ("about", "expected"), [("profiler-output", {"cpu"}), ("debug-output", {"LossSpike"})]
)
def test_profiler_rules_of_a_job_are_for_its_machine_alone(
    tmp_path: Path, about: str, expected: set[str]
) -> None:
    """A training without rules of its own keeps those of the deployment."""
    configuration = {
        "RuleConfigurationName": "cpu",
        "RuleParameters": {"rule_to_invoke": "CPUBottleneck"},
    }
    run = tmp_path / "j1" / about
    write_minutes(str(run), [SLOW])
    ports = looked(run, to_watch({"rules": ["LossSpike"]}), profiler_rules=(configuration,))
    assert {*ports.checkpoints.load(str(run)).checkpoint.rules} == expected


def test_what_looks_like_a_finding_and_is_none_says_why(tmp_path: Path) -> None:
    """Steps that other work on the machine interrupted."""
    run = tmp_path / "j1" / "profiler-output"
    steps = {"TRAIN": [0.1] * 300 + [1.0] * 25}
    write_minutes(str(run), [Minute(60.0, {"process/runqueue": [40.0]}, steps)] * 5)
    rules = document(check(open_storage(run))[0])["rules"]
    (found,) = [rule for rule in rules if rule["Rule"] == "StepTimeOutlier"]
    assert found["RuleEvaluationStatus"] == "NoIssuesFound"
    assert "the training waited 120 s for a core" in found["StatusDetails"]


@pytest.mark.parametrize("both", [True, False])
def test_a_bottleneck_of_inputs_inhibits_low_utilization(tmp_path: Path, both: bool) -> None:
    run = tmp_path / "j1" / "profiler-output"
    waits = {"wait": [0.3] * 100} if both else {}
    slow = Minute(60.0, {"gpu0/GPUUtilization": [20.0] * 120}, {"TRAIN": [0.1] * 100, **waits})
    write_minutes(str(run), [slow] * 20)
    ports = looked(run, to_watch({"actions": ["email"]}))
    fired = [each for each in ports.publisher.published if isinstance(each, StatusChange)]
    alerts = {each.rule: each for each in fired if each.rule_evaluation_status == "IssuesFound"}
    assert set(alerts) == {"LowGPUUtilization"} | ({"InputBottleneck"} if both else set())
    firing = {rule: RuleAlert(each, 0.0) for rule, each in alerts.items()}
    group = AlertGroup(str(run), alerts=firing)
    batch = inhibit(Batch("email", firing, {}), View(group, (), 0.0))
    assert list(batch.firing) == (["InputBottleneck"] if both else ["LowGPUUtilization"])

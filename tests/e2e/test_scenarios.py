"""The demo's scenarios on the deployed stack: real S3, SQS, Lambda, DynamoDB, buses, processes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import requests
from rich.console import Console
from tocsin.aws.reports import S3Reports, report_key

from local import demo
from local.demo import play
from local.narrator import Narrator
from local.scenarios import SCENARIOS
from local.stack import LocalAws
from tests.waiting import PATIENCE, becomes

pytestmark = pytest.mark.e2e

STOPPING = "ExplodingTensor"
ENDLESS = 1_000_000  # steps: only a stop ends it


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "_PATIENCE", PATIENCE)


def played(aws: LocalAws, scenario: str, steps: int | None = None) -> dict[str, Any]:
    """Plays it with so many planned steps, and no step saved more rarely on a slow machine."""
    narrator = Narrator(Console(quiet=True), quiet=True)
    story = SCENARIOS[scenario]
    story = replace(
        story,
        planned_steps=steps or story.planned_steps,
        watch={**story.watch, "capture": {"max_overhead": 1}},
    )
    result = play(aws, scenario, story, narrator)
    assert result["check_agrees"], "tocsin check must conclude what the deployed stack concluded"
    assert result["run"].endswith(f"/jobs/{result['job']}/debug-output")
    return result


def statuses(result: dict[str, Any]) -> dict[str, str]:
    return {rule["RuleConfigurationName"]: rule["RuleEvaluationStatus"] for rule in result["rules"]}


def test_a_job_goes_on_from_its_last_good_checkpoint_and_ends_well(aws: LocalAws) -> None:
    result = played(aws, "relaunch", 800)
    again = result["relaunched"]
    assert result["stopped"]
    assert again["job"] == f"{result['job']}-r1"
    assert (again["status"], again["steps_done"]) == ("Completed", 800)
    assert again["hyperparameters"] == {"learning-rate": "0.5"}
    (fired,) = (rule for rule in result["rules"] if rule["RuleConfigurationName"] == STOPPING)
    assert 0 < again["from_step"] < fired["FirstViolation"]["step"]
    assert again["cause"] is None
    assert statuses(again)[STOPPING] == "NoIssuesFound"
    assert "IssuesFound" not in statuses(again).values()
    of_relaunch = [alert for alert in result["alerts"] if alert["action"] == "relaunch"]
    assert [(alert["reason"], alert["outcome"]) for alert in of_relaunch] == [
        ("fired", "done"),
        ("job_ended", "done"),
    ]
    tags = aws.jobs.get(again["job"]).tags
    assert tags == {
        "tocsin:run": again["run"],
        "tocsin:relaunch": "Tocsin",
        "tocsin:relaunched-from": result["job"],
    }


@pytest.mark.parametrize(
    ("scenario", "stopping", "reason", "evidence"),
    [
        ("diverging", "ExplodingTensor", "not_finite", {"nan", "infinite", "size"}),
        ("vanishing", "VanishingGradient", "below_threshold", {"abs_mean", "threshold"}),
        ("outside-sagemaker", "ExplodingTensor", "not_finite", {"nan", "infinite", "size"}),
    ],
)
def test_a_training_that_goes_wrong_is_stopped_and_people_are_told(
    aws: LocalAws, scenario: str, stopping: str, reason: str, evidence: set[str]
) -> None:
    result = played(aws, scenario, ENDLESS)
    assert statuses(result)[stopping] == "IssuesFound"
    (rule,) = (rule for rule in result["rules"] if rule["Rule"] == stopping)
    assert rule["FirstViolation"]["reason"] == reason
    assert set(rule["FirstViolation"]["evidence"]) == evidence
    assert result["stopped"]
    assert 0 < result["stopped_at_step"] < result["planned_steps"]
    assert result["latency_ms"]["index_to_stop"] > 0
    assert result["email"]["subject"].startswith(f"Tocsin critical: {stopping}")
    assert "Stop requested" in result["email"]["body"]
    assert result["sms"].startswith(f"Tocsin: {stopping}")
    assert len(result["sms"]) < 160
    assert result["metric"]["Sum"] == 1.0
    assert result["metric"]["Dimensions"] == {"Rule": stopping, "TrainingJobName": result["job"]}
    if scenario == "diverging":
        assert_report(aws, result)
    if scenario != "outside-sagemaker":
        job = aws.jobs.get(result["job"])
        assert (job.status, job.exit_code) == ("Stopped", 0)


def assert_report(aws: LocalAws, result: dict[str, Any]) -> None:
    """The report is in the state bucket by the end of the run, and the mail's link opens it."""
    bucket, key = aws.outputs["StateBucketName"], report_key(result["run"])
    reports = S3Reports(aws.client("s3"), bucket)
    assert becomes(lambda: " marker " in reports.shown(result["run"]).state)
    (link,) = (
        line.strip()
        for line in result["email"]["body"].splitlines()
        if f"/{bucket}/{key}?X-Amz-" in line
    )
    page = requests.get(link, timeout=PATIENCE)
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "loss is NaN" in page.text


def test_a_storm_is_one_email_one_sms_and_one_stop_with_reasons_for_all(aws: LocalAws) -> None:
    result = played(aws, "storm", ENDLESS)
    assert set(statuses(result).values()) == {"IssuesFound"}
    assert sum(rule["Violations"] for rule in result["rules"]) >= 200
    assert result["stopped"]
    assert result["messages"] == 2
    assert "and 19 more" in result["email"]["subject"]
    assert result["sms"].startswith("Tocsin")
    sent = [line for line in result["alerts"] if line["decision"] == "send"]
    for action in ("stop", "email", "sms"):
        of_action = [line for line in sent if line["action"] == action]
        assert {line["RuleConfigurationName"] for line in of_action} == set(statuses(result))
        assert {line["outcome"] for line in of_action} == {"done"}
        assert len(of_action) == 20
    runs = Path(result["fleet"]).read_text()
    assert f">{result['job']}</a>" in runs
    assert "▲ warning" in runs


def test_a_healthy_training_runs_to_its_end_and_disturbs_nobody(aws: LocalAws) -> None:
    result = played(aws, "healthy")
    assert set(statuses(result).values()) == {"NoIssuesFound", "NotApplicable"}
    assert statuses(result)["LossNotDecreasing"] == "NoIssuesFound"
    assert result["steps_done"] == result["planned_steps"]
    assert not result["stopped"]
    assert (result["email"], result["sms"], result["metric"]) == (None, None, None)
    assert aws.jobs.get(result["job"]).status == "Completed"


def test_a_run_that_smdebug_wrote_gets_verdicts(aws: LocalAws) -> None:
    result = played(aws, "replay")
    assert statuses(result) == {
        "ExplodingTensor": "NoIssuesFound",
        "VanishingGradient": "IssuesFound",
    }
    assert result["email"]["subject"].startswith("Tocsin warning: VanishingGradient")
    assert result["sms"] is None

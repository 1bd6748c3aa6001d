from __future__ import annotations

from typing import Any

import pytest
from tocsin.actions import ActionOutcome, JobToStop, Relaunch, take
from tocsin.actions.relaunch import relaunch

ARN = "arn:aws:sagemaker:us-east-1:111122223333:training-job/j1"
RUN = "s3://captures/jobs/j1/debug-output"
ROLE = "arn:aws:iam::111122223333:role/training"
GOOD = {
    "FirstSign": 100,
    "Step": 90,
    "Checkpoint": "/opt/ml/checkpoints/80.pt",
    "CheckpointStep": 80,
}
ASKS = {
    "Actions": ["stop", "relaunch"],
    "LastGood": GOOD,
    "Relaunch": {"Attempts": 2, "Hyperparameters": {"lr": "x0.1"}},
}
DEFINITION: dict[str, Any] = {
    "RoleArn": ROLE,
    "HyperParameters": {"lr": "0.5"},
    "CheckpointConfig": {"S3Uri": "s3://checkpoints/j1"},
}


def job(status: str = "Stopping", output: str = "s3://captures/jobs", **other: Any) -> JobToStop:
    return JobToStop(ARN, status, (output,), {**DEFINITION, **other})


@pytest.fixture
def able(make_world: Any) -> Any:
    """Make a world whose deployment may start the job again."""

    def make(found: JobToStop | None, **other: Any) -> Any:
        return make_world(found, **{"relaunch_roles": frozenset({ROLE}), **other})

    return make


@pytest.mark.parametrize("status", ["Stopping", "Stopped", "InProgress"])
def test_a_job_that_was_stopped_is_started_again(ask: Any, able: Any, status: str) -> None:
    world = able(job(status))
    result = relaunch(ask("relaunch", ASKS, stopped=True), *world.ports)
    plan = Relaunch(
        ARN,
        "j1",
        RUN,
        "VanishingGradient",
        "d1",
        "/opt/ml/checkpoints/80.pt",
        80,
        2,
        {"lr": "x0.1"},
    )
    assert world.did == [("relaunch", plan)]
    assert (result.outcome, result.detail) == (
        ActionOutcome.DONE,
        (
            "j1-r1 starts from the checkpoint of step 80 when j1 has ended, with lr 0.5 → 0.05 "
            "(attempt 1 of 2)"
        ),
    )


def test_of_several_rules_the_earliest_sign_counts(ask: Any, able: Any) -> None:
    world = able(job())
    earlier = {**GOOD, "FirstSign": 50, "Checkpoint": "/opt/ml/checkpoints/40.pt"}
    earlier["CheckpointStep"] = 40
    alerts = (ASKS, {**ASKS, "RuleConfigurationName": "Other", "LastGood": earlier})
    relaunch(ask("relaunch", *alerts, stopped=True), *world.ports)
    ((_, plan),) = world.did
    assert (plan.checkpoint, plan.checkpoint_step) == ("/opt/ml/checkpoints/40.pt", 40)


def test_a_sign_before_every_checkpoint_is_not_passed_over(ask: Any, able: Any) -> None:
    world = able(job())
    alerts = (ASKS, {**ASKS, "RuleConfigurationName": "Other", "LastGood": {"FirstSign": 5}})
    result = relaunch(ask("relaunch", *alerts, stopped=True), *world.ports)
    assert (result.outcome, world.did) == (ActionOutcome.REFUSED, [])


@pytest.mark.parametrize(
    ("found", "asks", "why"),
    [
        (None, ASKS, "SageMaker has no training job j1"),
        (job(output="s3://elsewhere"), ASKS, "not to this run"),
        (job(RoleArn="arn:aws:iam::111122223333:role/admin"), ASKS, "role/admin of j1 is not in"),
        (job(), {**ASKS, "LastGood": {"FirstSign": 5}}, "no model checkpoint before"),
        (
            job(),
            {key: ASKS[key] for key in ("Actions", "Relaunch")},
            "no model checkpoint before",
        ),
        (job(), {key: ASKS[key] for key in ("Actions", "LastGood")}, "correct `relaunch`"),
        (job(HyperParameters={"rate": "0.5"}), ASKS, "no hyper-parameter 'lr'"),
    ],
)
def test_refused_for_good(ask: Any, able: Any, found: Any, asks: Any, why: str) -> None:
    world = able(found)
    result = relaunch(ask("relaunch", asks, stopped=True), *world.ports)
    assert (result.outcome, world.did) == (ActionOutcome.REFUSED, [])
    assert why in result.detail


def test_a_deployment_without_the_option_starts_nothing(ask: Any, make_world: Any) -> None:
    world = make_world(job())
    result = relaunch(ask("relaunch", ASKS, stopped=True), *world.ports)
    assert (result.outcome, world.did) == (ActionOutcome.REFUSED, [])
    assert "option relaunch" in result.detail


@pytest.mark.parametrize("status", ["Stopped", "Stopping", "Failed", "Completed"])
def test_a_job_that_ended_otherwise_is_left_alone(ask: Any, able: Any, status: str) -> None:
    world = able(job(status))
    result = relaunch(ask("relaunch", ASKS), *world.ports)
    assert (result.outcome, result.retry_at, world.did) == (ActionOutcome.REFUSED, None, [])
    assert "this deployment has not stopped it" in result.detail


def test_a_stop_that_the_guard_delays_is_waited_for(ask: Any, able: Any) -> None:
    world = able(job("InProgress"))
    result = relaunch(ask("relaunch", ASKS), *world.ports)
    assert (result.outcome, world.did) == (ActionOutcome.REFUSED, [])
    assert result.retry_at == world.lookups.now().timestamp() + 60
    assert not result.guarded


def test_a_dry_run_says_what_it_would_do(ask: Any, able: Any) -> None:
    world = able(job("InProgress"))
    result = take(ask("relaunch", {**ASKS, "DryRun": True}), *world.ports)
    assert (result.outcome, world.did) == (ActionOutcome.DRY_RUN, [])
    assert "j1-r1 starts from the checkpoint of step 80" in result.detail


@pytest.mark.parametrize(("action", "firing"), [("relaunch:now", (ASKS,)), ("relaunch", ())])
def test_a_request_that_makes_no_sense(ask: Any, able: Any, action: str, firing: Any) -> None:
    world = able(job())
    request = ask(action, *firing, **({} if firing else {"resolved": ()}), stopped=True)
    assert relaunch(request, *world.ports).outcome is ActionOutcome.REFUSED
    assert world.did == []

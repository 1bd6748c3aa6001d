from __future__ import annotations

import json
from typing import Any

import pytest
from tocsin.actions import ActionOutcome, JobToStop, NotRunning, Result
from tocsin.actions.stop import stop

ARN = "arn:aws:sagemaker:us-east-1:111122223333:training-job/j1"
RUN = "s3://captures/jobs/j1/debug-output"


def test_stops_the_job_that_captures_into_the_run(ask: Any, make_world: Any) -> None:
    world = make_world(JobToStop(ARN, "InProgress", ("s3://captures/jobs",)))
    result = stop(ask("stop"), *world.ports)
    assert result.outcome is ActionOutcome.DONE
    assert world.did == [("reserve_stop", (RUN, "sagemaker")), ("stop", "j1")]


@pytest.mark.parametrize(
    ("output", "run"),
    [
        ("s3://captures/jobs/j1/debug-output", RUN),
        ("s3://captures/jobs/j1", RUN),
        ("s3://captures/jobs", RUN),
        ("s3://captures/jobs/", RUN),
        ("s3://captures//jobs//", RUN),
        ("s3://captures/jobs", "s3://captures/jobs/j1/"),
        ("s3://captures/jobs", "s3://captures/jobs"),
        ("s3://captures", "s3://captures/j1"),
        ("s3://captures/", "s3://captures"),
    ],
)
def test_these_outputs_lead_to_the_run(ask: Any, make_world: Any, output: str, run: str) -> None:
    world = make_world(JobToStop(ARN, "InProgress", ("s3://elsewhere/x", output)))
    assert stop(ask("stop", {"Run": run}), *world.ports).outcome is ActionOutcome.DONE


@pytest.mark.parametrize(
    "output",
    [
        "s3://captures/jobs/j1x",
        "s3://captures/job",
        "s3://captures/jobs/j1/debug-output/deeper",
        "s3://captures",
        "s3://other/jobs/j1/debug-output",
        "s3://captures/JOBS/j1",
        "",
    ],
)
def test_refuses_a_job_that_only_has_the_name(ask: Any, make_world: Any, output: str) -> None:
    world = make_world(JobToStop(ARN, "InProgress", (output,) if output else ()))
    result = stop(ask("stop"), *world.ports)
    assert result.outcome is ActionOutcome.REFUSED
    assert world.did == []
    assert (
        f"aws sagemaker add-tags --resource-arn {ARN} --tags Key=tocsin:run,Value={RUN}"
        in result.detail
    )


def test_the_command_in_a_refusal_is_quoted(ask: Any, make_world: Any) -> None:
    world = make_world(JobToStop(ARN, "InProgress"))
    result = stop(ask("stop", {"Run": "s3://captures/$(reboot)"}), *world.ports)
    assert result.detail.endswith("'Key=tocsin:run,Value=s3://captures/$(reboot)'")


@pytest.mark.parametrize("tag", [RUN, RUN + "/"])
def test_a_tag_leads_to_the_run_too(ask: Any, make_world: Any, tag: str) -> None:
    world = make_world(JobToStop(ARN, "InProgress", ("s3://x/y",)), tags={"tocsin:run": tag})
    assert stop(ask("stop"), *world.ports).outcome is ActionOutcome.DONE


@pytest.mark.parametrize(
    "tags", [{"tocsin:run": ""}, {"tocsin:run": "s3://captures"}, {"run": RUN}]
)
def test_another_tag_does_not(ask: Any, make_world: Any, tags: dict[str, str]) -> None:
    world = make_world(JobToStop(ARN, "InProgress"), tags=tags)
    assert stop(ask("stop"), *world.ports).outcome is ActionOutcome.REFUSED


@pytest.mark.parametrize("status", ["Completed", "Failed", "Stopped", "Stopping"])
def test_a_job_that_has_ended_is_left_alone(ask: Any, make_world: Any, status: str) -> None:
    world = make_world(JobToStop(ARN, status, ("s3://captures/jobs",)))
    result = stop(ask("stop"), *world.ports)
    assert (result.outcome, world.did) == (ActionOutcome.ALREADY_STOPPED, [])
    assert status in result.detail


def test_whose_job_it_is_comes_before_how_it_is(ask: Any, make_world: Any) -> None:
    world = make_world(JobToStop(ARN, "Completed"))
    assert stop(ask("stop"), *world.ports).outcome is ActionOutcome.REFUSED


def test_a_job_may_end_in_the_instant_before(ask: Any, make_world: Any) -> None:
    job = JobToStop(ARN, "InProgress", ("s3://captures/jobs",))
    world = make_world(job, status_when_stopped="Completed")
    result = stop(ask("stop"), *world.ports)
    assert result.outcome is ActionOutcome.ALREADY_STOPPED


def test_a_running_job_that_cannot_be_stopped_is_tried_again(ask: Any, make_world: Any) -> None:
    job = JobToStop(ARN, "InProgress", ("s3://captures/jobs",))
    world = make_world(job, status_when_stopped="InProgress")
    with pytest.raises(NotRunning):
        stop(ask("stop"), *world.ports)


@pytest.mark.parametrize("name", ["j1", "my_run.v2", "x" * 64, "-j", "Zürich", ".."])
def test_a_job_outside_sagemaker_gets_a_request_in_its_run(ask: Any, world: Any, name: str) -> None:
    result = stop(ask("stop", {"TrainingJobName": name}), *world.ports)
    assert result.outcome is ActionOutcome.DONE
    [_, (_, (run, key, data))] = world.did
    assert (run, key) == (RUN, "STOP.json")
    assert json.loads(data) == {
        "requested_at": "2026-01-02T03:04:05+00:00",
        "rule": "VanishingGradient",
        "reason": "below_threshold",
        "step": 120,
        "run_id": "r1",
    }


def test_a_name_unknown_to_sagemaker_is_not_looked_up(ask: Any, make_world: Any) -> None:
    world = make_world(broken={"describe": AssertionError("looked up")})
    alert = {"TrainingJobName": "my_run", "RunId": None, "Step": None, "Reason": None}
    assert stop(ask("stop", alert), *world.ports).outcome is ActionOutcome.DONE


def test_trouble_is_raised(ask: Any, make_world: Any) -> None:
    world = make_world(broken={"describe": TimeoutError("throttled")})
    with pytest.raises(TimeoutError):
        stop(ask("stop"), *world.ports)


@pytest.mark.parametrize("job", [JobToStop(ARN, "InProgress", ("s3://captures/jobs",)), None])
def test_the_guard_may_refuse(ask: Any, make_world: Any, job: JobToStop | None) -> None:
    world = make_world(job, guard="10 runs were stopped in the last 10 minutes")
    result = stop(ask("stop"), *world.ports)
    assert result == Result(ActionOutcome.REFUSED, world.guard, retry_at=1.0, guarded=True)
    assert world.did == [("reserve_stop", (RUN, "sagemaker" if job else "hook"))]


@pytest.mark.parametrize(
    "job", [JobToStop(ARN, "Completed", ("s3://captures/jobs",)), JobToStop(ARN, "X")]
)
def test_what_is_not_stopped_anyway_does_not_count(
    ask: Any, make_world: Any, job: JobToStop
) -> None:
    world = make_world(job, guard="too many")
    assert not stop(ask("stop"), *world.ports).guarded
    assert world.did == []


@pytest.mark.parametrize(("status", "again"), [("InProgress", True), ("Completed", False)])
def test_a_job_that_does_not_lead_to_the_run_is_looked_at_again_while_it_runs(
    ask: Any, make_world: Any, status: str, again: bool
) -> None:
    world = make_world(JobToStop(ARN, status))
    result = stop(ask("stop"), *world.ports)
    assert result.retry_at == (world.lookups.now().timestamp() + 300 if again else None)
    assert not result.guarded


def test_for_several_rules_it_is_one_call(ask: Any, make_world: Any, world: Any) -> None:
    alerts = [{"RuleConfigurationName": name} for name in "ab"]
    running = make_world(JobToStop(ARN, "InProgress", ("s3://captures/jobs",)))
    assert stop(ask("stop", *alerts), *running.ports).outcome is ActionOutcome.DONE
    assert running.did == [("reserve_stop", (RUN, "sagemaker")), ("stop", "j1")]
    stop(ask("stop", *alerts), *world.ports)
    [_, (_, (_, _, data))] = world.did
    assert json.loads(data)["rule"] == "a"


def test_a_resolved_rule_stops_nothing(ask: Any, world: Any, make_alert: Any) -> None:
    result = stop(ask("stop", resolved=(make_alert(),)), *world.ports)
    assert (result.outcome, world.did) == (ActionOutcome.REFUSED, [])


def test_takes_no_argument(ask: Any, world: Any) -> None:
    assert stop(ask("stop:j2"), *world.ports).outcome is ActionOutcome.REFUSED

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec.structs import replace
from tocsin.actions import ActionOutcome, JobToStop, NameTaken, Refused, Result
from tocsin.actions.starting_again import LONGEST_WAIT, Jobs, start_again

from tests.unit.actions.test_next_job import JOB, PLAN

ROLES = frozenset({JOB["RoleArn"]})
NEXT = {"tocsin:relaunch": "Tocsin", "tocsin:relaunched-from": "digits"}


@dataclass
class SageMaker:
    """Jobs by name, and the requests that it has taken."""

    jobs: dict[str, JobToStop] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    refusal: Exception | None = None
    requests: list[Mapping[str, Any]] = field(default_factory=list)

    def create(self, request: Mapping[str, Any]) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.requests.append(request)

    @property
    def reached(self) -> Jobs:
        return Jobs(self.jobs.get, lambda arn: self.tags, self.create)


def sagemaker(status: str = "Stopped", arn: str = PLAN.job, **other: Any) -> SageMaker:
    return SageMaker({"digits": JobToStop(arn, status, (), {**JOB, **other})})


def start(world: SageMaker, waited: float = 0.0, **plan: Any) -> Result | None:
    return start_again(replace(PLAN, **plan), world.reached, "Tocsin", ROLES, waited)


def test_a_stopped_job_is_started_again() -> None:
    world = sagemaker()
    assert start(world) == Result(
        ActionOutcome.DONE, "started digits-r1 from /opt/ml/checkpoints/step-59.npz (step 59)"
    )
    (request,) = world.requests
    assert request["TrainingJobName"] == "digits-r1"


@pytest.mark.parametrize("status", ["InProgress", "Stopping"])
def test_one_that_has_not_ended_is_waited_for_an_hour(status: str) -> None:
    world = sagemaker(status)
    assert start(world, LONGEST_WAIT - 1) is None
    result = start(world, LONGEST_WAIT)
    assert result is not None
    assert (result.outcome, world.requests) == (ActionOutcome.REFUSED, [])
    assert f"digits is {status}, not Stopped" in result.detail


@pytest.mark.parametrize(
    ("world", "plan", "why"),
    [
        (SageMaker(), {}, "no training job"),
        (sagemaker(arn=PLAN.job.replace("1111", "2222")), {}, "no training job"),
        (sagemaker("Failed"), {}, "digits is Failed"),
        (sagemaker("Completed"), {}, "digits is Completed"),
        (sagemaker(RoleArn="arn:aws:iam::111122223333:role/admin"), {}, "the role of digits"),
        (sagemaker(), {"attempts": 0}, "0 attempts"),
        (sagemaker(HyperParameters={}), {}, "no hyper-parameter 'lr'"),
    ],
)
def test_nothing_is_started(world: SageMaker, plan: dict[str, Any], why: str) -> None:
    result = start(world, **plan)
    assert result is not None
    assert (result.outcome, world.requests) == (ActionOutcome.REFUSED, [])
    assert why in result.detail


@pytest.mark.parametrize(
    ("tags", "outcome"),
    [
        (NEXT, ActionOutcome.DONE),
        ({}, ActionOutcome.REFUSED),
        ({**NEXT, "tocsin:relaunched-from": "other"}, ActionOutcome.REFUSED),
        ({**NEXT, "tocsin:relaunch": "Tocsin-dev"}, ActionOutcome.REFUSED),
    ],
)
def test_a_name_that_is_taken(tags: dict[str, str], outcome: ActionOutcome) -> None:
    world = sagemaker()
    world.jobs["digits-r1"] = JobToStop("arn:next", "InProgress")
    world.tags, world.refusal = tags, NameTaken("there is one")
    result = start(world)
    assert result is not None
    assert result.outcome is outcome


def test_a_request_that_sagemaker_never_takes() -> None:
    world = sagemaker()
    world.refusal = Refused("no such image")
    assert start(world) == Result(
        ActionOutcome.REFUSED, "SageMaker refused digits-r1: no such image"
    )


def test_what_may_pass_is_tried_again() -> None:
    world = sagemaker()
    world.refusal = OSError("no answer")
    with pytest.raises(OSError, match="no answer"):
        start(world)

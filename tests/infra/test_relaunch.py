"""The option relaunch: off it leaves no trace; on, what each role may do, and nothing else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tocsin.aws.settings import ActSettings, RelaunchSettings

from .conftest import Synthesised, listed, synthesise

if TYPE_CHECKING:
    from collections.abc import Mapping

ROLE = "arn:aws:iam::111122223333:role/team/training"
OTHER = "arn:aws:iam::111122223333:role/speech"
LOGS = {"logs:CreateLogStream", "logs:PutLogEvents"}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Synthesised:
    context = {"relaunch": f"{ROLE},{OTHER}", "stage": "dev"}
    return synthesise(tmp_path_factory.mktemp("relaunch"), context)


def allowed(stack: Synthesised, role: str) -> Mapping[str, tuple[list[Any], Any]]:
    """By action the resources and the condition."""
    return {
        action: (listed(statement.get("Resource", [])), statement.get("Condition"))
        for statement in stack.statements(role)
        for action in listed(statement["Action"])
        if action not in LOGS
    }


def jobs(name: str) -> list[Any]:
    parts = ["AWS::Partition", "AWS::Region", "AWS::AccountId"]
    partition, region, account = ({"Ref": part} for part in parts)
    joined = ["arn:", partition, ":sagemaker:", region, ":", account, f":training-job/{name}"]
    return [{"Fn::Join": ["", joined]}]


def test_off_there_is_nothing_of_it(own: Synthesised) -> None:
    text = json.dumps(own.template["Resources"])
    for trace in ("CreateTrainingJob", "sagemaker:AddTags", "iam:PassRole", "sqs:sendMessage"):
        assert trace not in text
    assert len(own.all("StepFunctions::StateMachine")) == 1
    assert "states:StartExecution" not in allowed(own, "ActionsActRole")
    assert ActSettings.variable("relaunch_machine") not in own.variables("ActionsAct")


def test_only_the_function_may_create_jobs_and_only_tagged_ones(stack: Synthesised) -> None:
    tagged = {"StringEquals": {"aws:RequestTag/tocsin:relaunch": "Tocsin-dev"}}
    to_sagemaker = {"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}}
    assert allowed(stack, "RelaunchesRelaunchRole") == {
        "sagemaker:DescribeTrainingJob": (jobs("*"), None),
        "sagemaker:ListTags": (jobs("*"), None),
        "sagemaker:CreateTrainingJob": (jobs("*-r?"), tagged),
        "sagemaker:AddTags": (jobs("*-r?"), tagged),
        "iam:PassRole": ([OTHER, ROLE], to_sagemaker),
    }
    others = [name for name in stack.all("IAM::Policy") if "RelaunchesRelaunch" not in name]
    assert len(others) > 5
    for name in others:
        assert not {"sagemaker:CreateTrainingJob", "iam:PassRole"} & {*allowed(stack, name)}


def test_the_machine_calls_the_function_and_reports_to_act(stack: Synthesised) -> None:
    may = allowed(stack, "RelaunchesMachineRole")
    assert may.keys() == {"lambda:InvokeFunction", "sqs:SendMessage"}
    assert "RelaunchesRelaunchFunction" in json.dumps(may["lambda:InvokeFunction"])
    assert "ActionsWorkQueue" in json.dumps(may["sqs:SendMessage"])


def test_act_may_start_this_machine_only(stack: Synthesised) -> None:
    ((started,), _) = allowed(stack, "ActionsActRole")["states:StartExecution"]
    assert "RelaunchesMachine" in started["Ref"]
    variables = stack.variables("ActionsAct")
    assert variables[ActSettings.variable("relaunch_machine")] == started
    assert variables[ActSettings.variable("relaunch_roles")] == f"{ROLE},{OTHER}"


def test_the_function_knows_its_roles_and_its_deployment(stack: Synthesised) -> None:
    settings = RelaunchSettings.read(stack.variables("RelaunchesRelaunch"))
    assert settings == RelaunchSettings("Tocsin-dev", (ROLE, OTHER))


def test_every_way_through_the_machine_ends_with_a_report(stack: Synthesised) -> None:
    machine = stack.one("StepFunctions::StateMachine", "Relaunches")
    text = "".join(
        part if isinstance(part, str) else "arn"
        for part in machine["DefinitionString"]["Fn::Join"][1]
    )
    states = json.loads(text)["States"]
    ends = [name for name, state in states.items() if state.get("End")]
    assert ends == ["Report"]
    assert states["Relaunch"]["Catch"][0]["Next"] == "Failed"
    assert states["Failed"]["Next"] == "Report"


@pytest.mark.parametrize("role", ["arn:aws:iam::1:role/x", "training", "arn:aws:iam::1:user/x"])
def test_an_option_that_is_not_a_role(role: str, tmp_path: Any) -> None:
    with pytest.raises(ValueError, match=r"option relaunch has a wrong item.*is not the ARN"):
        synthesise(tmp_path, {"relaunch": role})

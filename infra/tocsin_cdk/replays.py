"""Replays many runs: a state machine that calls one function for each of them."""

from __future__ import annotations

from typing import Any

from aws_cdk import Aws, Duration, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_stepfunctions as stepfunctions
from constructs import Construct
from tocsin.aws.settings import CHECKPOINTS, REPLAYS, ReplaySettings
from tocsin.tensors import WATCH

from tocsin_cdk.capture import CaptureLocation
from tocsin_cdk.constants import FUNCTIONS
from tocsin_cdk.function import PythonFunction
from tocsin_cdk.nag import acknowledge, acknowledge_wildcards
from tocsin_cdk.options import DeploymentOptions
from tocsin_cdk.state import State
from tocsin_cdk.watch_file import default_watch

TIMEOUT = Duration.minutes(15)
_MAP = "EachRun"
_AGAIN = [
    {
        "ErrorEquals": ["Lambda.TooManyRequestsException"],
        "IntervalSeconds": 5,
        "MaxAttempts": 20,
        "BackoffRate": 1.5,
        "MaxDelaySeconds": 60,
        "JitterStrategy": "FULL",
    },
    {"ErrorEquals": ["States.ALL"], "IntervalSeconds": 5, "MaxAttempts": 2, "BackoffRate": 2},
]


class Replays(Construct):
    """The function ``replay``, and the state machine that calls it for each run of a list.

    The function reads runs and checkpoints and writes below ``replays/`` of the state bucket: it
    cannot publish, notify or stop. A call that runs out of time is followed by another one.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        options: DeploymentOptions,
        layer: lambda_.ILayerVersion,
        capture: CaptureLocation,
        state: State,
    ) -> None:
        super().__init__(scope, id_)
        watch = default_watch(options.watch_file, options.recipients, options.webhooks)
        self.replay = PythonFunction(
            self,
            "Replay",
            folder=FUNCTIONS / "replay",
            files={WATCH: watch},
            options=options,
            layers=[layer],
            timeout=TIMEOUT,
            memory=options.memory["replay"],
            settings=ReplaySettings(state_bucket=state.bucket.bucket_name),
        )
        capture.grant_read(self.replay)
        state.grant_read(self.replay, CHECKPOINTS, REPLAYS)
        state.grant_write(self.replay, REPLAYS)
        self._role = iam.Role(
            self, "MachineRole", assumed_by=iam.ServicePrincipal("states.amazonaws.com")
        )
        self.machine = stepfunctions.CfnStateMachine(
            self,
            "Machine",
            role_arn=self._role.role_arn,
            definition_string=self._definition(state, options.concurrency["replay"]),
        )
        self._grant(state)
        acknowledge(
            self.machine,
            {
                "SF1": "Each run has a child execution of its own with its history and its result.",
                "SF2": "There is nothing to trace but the calls of one function.",
            },
        )

    def _definition(self, state: State, concurrency: int) -> str:
        """Read the list of runs, and call the function for each until it has done the run."""
        evaluate = {
            "Type": "Task",
            "Resource": self.replay.function.function_arn,
            "ResultPath": "$.done",
            "Retry": _AGAIN,
            "Next": "IsDone",
        }
        is_done = {
            "Type": "Choice",
            "Choices": [{"Variable": "$.done", "BooleanEquals": True, "Next": "Done"}],
            "Default": "Evaluate",
        }
        each = {
            "ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"},
            "StartAt": "Evaluate",
            "States": {
                "Evaluate": evaluate,
                "IsDone": is_done,
                # The outputs of all children together are at most 256 KiB.
                "Done": {"Type": "Pass", "Result": 1, "End": True},
            },
        }
        runs = {
            "Resource": f"arn:{Aws.PARTITION}:states:::s3:getObject",
            "ReaderConfig": {"InputType": "JSON"},
            "Parameters": {"Bucket": state.bucket.bucket_name, "Key.$": "$.runs"},
        }
        every: dict[str, Any] = {
            "Type": "Map",
            "Label": _MAP,
            "MaxConcurrency": concurrency,
            "ToleratedFailurePercentage": 100,  # one run that fails does not end the others
            "ItemReader": runs,
            "ItemSelector": {"replay.$": "$.replay", "run.$": "$$.Map.Item.Value"},
            "ItemProcessor": each,
            "ResultPath": None,
            "End": True,
        }
        return Stack.of(self).to_json_string({"StartAt": _MAP, "States": {_MAP: every}})

    def _grant(self, state: State) -> None:
        """Let the machine call the function, read the list, and start its children."""
        name = self.machine.attr_name
        own = f"arn:{Aws.PARTITION}:states:{Aws.REGION}:{Aws.ACCOUNT_ID}:execution:{name}"
        executions = [f"{own}:*", f"{own}/{_MAP}:*"]
        lists = [state.bucket.arn_for_objects(f"{REPLAYS}*")]
        for actions, resources in (
            (["lambda:InvokeFunction"], [self.replay.function.function_arn]),
            (["s3:GetObject"], lists),
            (["states:StartExecution"], [self.machine.ref]),
            (["states:DescribeExecution", "states:StopExecution"], executions),
        ):
            self._role.add_to_policy(iam.PolicyStatement(actions=actions, resources=resources))
        why = "Each replay has a list of its own, and an execution for each run."
        acknowledge_wildcards(self._role, [*lists, *executions], why)

"""Starts stopped jobs again: a state machine that waits for a job's end, and a function."""

from __future__ import annotations

from typing import Any

from aws_cdk import Aws, Duration, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_stepfunctions as stepfunctions
from constructs import Construct
from tocsin.actions.next_job import RELAUNCH_TAG
from tocsin.aws.connect.relaunch import WAITING
from tocsin.aws.settings import RelaunchSettings

from tocsin_cdk.constants import FUNCTIONS
from tocsin_cdk.evaluation import allow_on_training_jobs
from tocsin_cdk.function import PythonFunction
from tocsin_cdk.nag import acknowledge, acknowledge_wildcards
from tocsin_cdk.options import DeploymentOptions
from tocsin_cdk.queues import WorkQueue

_PAUSE = 10  # seconds between two looks at a job that is stopping: it takes a minute or two
_AGAIN = [
    {
        "ErrorEquals": ["States.ALL"],
        "IntervalSeconds": 10,
        "MaxAttempts": 5,
        "BackoffRate": 2,
        "JitterStrategy": "FULL",
    }
]


class Relaunches(Construct):
    """The function ``relaunch``, and the state machine that ``act`` starts for each stopped job.

    Only this function may create training jobs and pass roles: jobs named ``*-r?`` with the
    deployment's tag, and the roles of the option. It reads no run. The machine sends the outcome to
    the queue of ``act``.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        options: DeploymentOptions,
        layer: lambda_.ILayerVersion,
        outcomes: WorkQueue,
    ) -> None:
        super().__init__(scope, id_)
        deployment = options.names.stack
        self.relaunch = PythonFunction(
            self,
            "Relaunch",
            folder=FUNCTIONS / "relaunch",
            options=options,
            layers=[layer],
            timeout=Duration.seconds(60),
            memory=options.memory["relaunch"],
            settings=RelaunchSettings(deployment=deployment, roles=options.relaunch),
        )
        allow_on_training_jobs(self.relaunch, "DescribeTrainingJob", "ListTags")
        jobs = f"arn:{Aws.PARTITION}:sagemaker:{Aws.REGION}:{Aws.ACCOUNT_ID}:training-job/*-r?"
        self.relaunch.allow(
            ["sagemaker:CreateTrainingJob", "sagemaker:AddTags"],
            [jobs],
            {"StringEquals": {f"aws:RequestTag/{RELAUNCH_TAG}": deployment}},
        )
        why = "Only jobs that are started again have such names, and they bear the stack's tag."
        acknowledge_wildcards(self.relaunch.role, [jobs], why)
        self.relaunch.allow(
            ["iam:PassRole"],
            options.relaunch,
            {"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}},
        )
        self._role = iam.Role(
            self, "MachineRole", assumed_by=iam.ServicePrincipal("states.amazonaws.com")
        )
        self.machine = stepfunctions.CfnStateMachine(
            self,
            "Machine",
            role_arn=self._role.role_arn,
            definition_string=Stack.of(self).to_json_string(self._definition(outcomes)),
        )
        for actions, resource in (
            (["lambda:InvokeFunction"], self.relaunch.function.function_arn),
            (["sqs:SendMessage"], outcomes.queue.queue_arn),
        ):
            self._role.add_to_policy(iam.PolicyStatement(actions=actions, resources=[resource]))
        acknowledge(
            self.machine,
            {
                "SF1": "The function logs each outcome, and `act` publishes it on the bus.",
                "SF2": "There is nothing to trace but the calls of one function.",
            },
        )

    def _definition(self, outcomes: WorkQueue) -> dict[str, Any]:
        """Call the function until the job has ended, and report what it has done."""
        report = {"tocsin": "relaunch"}
        report |= {f"{key}.$": f"$.plan.{key}" for key in ("run", "rule", "dedup_id")}
        report |= {f"{key}.$": f"$.answer.{key}" for key in ("outcome", "detail")}
        states = {
            "Relaunch": {
                "Type": "Task",
                "Resource": self.relaunch.function.function_arn,
                "Parameters": {"plan.$": "$.plan", "began.$": "$$.Execution.StartTime"},
                "ResultPath": "$.answer",
                "Retry": _AGAIN,
                "Catch": [
                    {"ErrorEquals": ["States.ALL"], "ResultPath": "$.error", "Next": "Failed"}
                ],
                "Next": "HasEnded",
            },
            "HasEnded": {
                "Type": "Choice",
                "Choices": [
                    {"Variable": "$.answer.outcome", "StringEquals": WAITING, "Next": "Wait"}
                ],
                "Default": "Report",
            },
            "Wait": {"Type": "Wait", "Seconds": _PAUSE, "Next": "Relaunch"},
            "Failed": {
                "Type": "Pass",
                "Parameters": {"outcome": "failed", "detail.$": "$.error.Cause"},
                "ResultPath": "$.answer",
                "Next": "Report",
            },
            "Report": {
                "Type": "Task",
                "Resource": f"arn:{Aws.PARTITION}:states:::sqs:sendMessage",
                "Parameters": {"QueueUrl": outcomes.queue.queue_url, "MessageBody": report},
                "Retry": _AGAIN,
                "ResultPath": None,
                "End": True,
            },
        }
        return {"StartAt": "Relaunch", "States": states}

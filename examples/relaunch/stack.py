"""A rule on Tocsin's bus, and the state machine that it starts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from aws_cdk import Acknowledgment, Aws, RemovalPolicy, Stack, Validations
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

if TYPE_CHECKING:
    from options import RelaunchOptions  # the app runs in this folder

DEFINITION = Path(__file__).with_name("relaunch.asl.json")


class RelaunchStack(Stack):
    """Starts a job again, with a lower learning rate, after a named rule has stopped it."""

    def __init__(self, scope: Construct, id_: str, *, options: RelaunchOptions) -> None:
        super().__init__(scope, id_, description="Starts jobs again that Tocsin stopped")
        self.machine = sfn.StateMachine(
            self,
            "Relaunch",
            definition_body=sfn.DefinitionBody.from_string(DEFINITION.read_text()),
            definition_substitutions={
                "Parameter": options.parameter,
                "Factor": f"{options.factor:.9f}",
                "Most": str(options.most),
                "Partition": Aws.PARTITION,
            },
            logs=sfn.LogOptions(
                destination=logs.LogGroup(
                    self,
                    "Log",
                    retention=logs.RetentionDays.THREE_MONTHS,
                    removal_policy=RemovalPolicy.DESTROY,
                ),
                level=sfn.LogLevel.ALL,
            ),
            tracing_enabled=True,
        )
        self._allow(options)
        events.Rule(
            self,
            "Stopped",
            description="Tocsin has stopped a job whose learning rate may be too high",
            event_bus=events.EventBus.from_event_bus_name(self, "Bus", options.bus),
            event_pattern=events.EventPattern(
                source=["tocsin"],
                detail_type=["Tocsin Action Taken"],
                detail={
                    "Action": ["stop"],
                    "Outcome": ["done"],
                    "RuleConfigurationName": list(options.rules),
                },
            ),
            targets=[targets.SfnStateMachine(self.machine)],
        )

    def _allow(self, options: RelaunchOptions) -> None:
        every = self._jobs("*")
        restarted = self._jobs("*-r?")
        for actions, resource in (
            (["sagemaker:DescribeTrainingJob", "sagemaker:ListTags"], every),
            (["sagemaker:CreateTrainingJob", "sagemaker:AddTags"], restarted),
        ):
            self.machine.add_to_role_policy(
                iam.PolicyStatement(actions=actions, resources=[resource])
            )
        self.machine.add_to_role_policy(
            iam.PolicyStatement(
                actions=["iam:PassRole"],
                resources=list(options.roles),
                conditions={"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}},
            )
        )
        jobs = "arn:<AWS::Partition>:sagemaker:<AWS::Region>:<AWS::AccountId>:training-job"
        Validations.of(self.machine).acknowledge(
            *(
                Acknowledgment(id=f"AwsSolutions-IAM5[Resource::{resource}]", reason=reason)
                for resource, reason in (
                    (f"{jobs}/*", "The job is not known before it is stopped."),
                    (f"{jobs}/*-r?", "Only jobs that are started again have such names."),
                    ("*", "Log deliveries and X-Ray know no resources."),
                )
            )
        )

    def _jobs(self, name: str) -> str:
        return self.format_arn(service="sagemaker", resource="training-job", resource_name=name)

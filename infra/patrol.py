"""Looks once a minute for what is due: silent runs, lost hints, timers, alerts."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra.constants import ROOT
from infra.function import PythonFunction
from infra.options import Options
from infra.queues import WorkQueue
from infra.state import State


class Patrol(Construct):
    """The function ``patrol`` and its clock. It wakes ``evaluate`` and ``act``, by their queues.

    A round that fails is not tried again and leaves no dead letter: the next one comes within a
    minute and finds the same.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        options: Options,
        layer: lambda_.ILayerVersion,
        work: WorkQueue,
        act: WorkQueue,
        state: State,
    ) -> None:
        super().__init__(scope, id_)
        self.patrol = PythonFunction(
            self,
            "Patrol",
            folder=ROOT / "functions" / "patrol",
            options=options,
            layers=[layer],
            timeout=Duration.seconds(50),
            memory=256,
            environment={
                "TOCSIN_TABLE": state.table.table_name,
                "TOCSIN_EVALUATE_QUEUE_URL": work.queue.queue_url,
                "TOCSIN_ACT_QUEUE_URL": act.queue.queue_url,
            },
        )
        self.patrol.allow(["dynamodb:Query"], [state.due_index_arn])
        self.patrol.allow(["sqs:SendMessage"], [work.queue.queue_arn, act.queue.queue_arn])
        events.Rule(
            self,
            "EveryMinute",
            description="Sends the patrol on its round",
            schedule=events.Schedule.rate(Duration.minutes(1)),
            targets=[targets.LambdaFunction(self.patrol.function, retry_attempts=0)],
        )

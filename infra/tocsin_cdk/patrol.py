"""Looks once a minute for what is due: silent runs, lost hints, timers, alerts."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_lambda as lambda_
from constructs import Construct
from tocsin.aws.settings import PatrolSettings

from tocsin_cdk.constants import FUNCTIONS
from tocsin_cdk.function import PythonFunction
from tocsin_cdk.options import DeploymentOptions
from tocsin_cdk.queues import WorkQueue
from tocsin_cdk.state import State


class Patrol(Construct):
    """The function ``patrol`` and its schedule. It sends messages to ``evaluate`` and ``act``.

    A patrol that fails is not retried and leaves no dead letter: the next one follows within a
    minute.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        options: DeploymentOptions,
        layer: lambda_.ILayerVersion,
        work: WorkQueue,
        act: WorkQueue,
        state: State,
    ) -> None:
        super().__init__(scope, id_)
        self.patrol = PythonFunction(
            self,
            "Patrol",
            folder=FUNCTIONS / "patrol",
            options=options,
            layers=[layer],
            timeout=Duration.seconds(50),
            memory=options.memory["patrol"],
            settings=PatrolSettings(
                table=state.table.table_name,
                evaluate_queue_url=work.queue.queue_url,
                act_queue_url=act.queue.queue_url,
            ),
        )
        self.patrol.allow(["dynamodb:Query"], [state.due_index_arn])
        self.patrol.allow(["sqs:SendMessage"], [work.queue.queue_arn, act.queue.queue_arn])
        # Lambda itself would try twice more, for six hours; a rule's target cannot forbid that.
        self.patrol.function.configure_async_invoke(
            retry_attempts=0, max_event_age=Duration.seconds(60)
        )
        events.Rule(
            self,
            "EveryMinute",
            description="Runs the patrol",
            schedule=events.Schedule.rate(Duration.minutes(1)),
            targets=[targets.LambdaFunction(self.patrol.function, retry_attempts=0)],
        )

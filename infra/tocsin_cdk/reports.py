"""Writes the report of a run when rules fire or resolve, after actions, and at its end."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_event_sources as sources
from constructs import Construct
from tocsin.aws.settings import CHECKPOINTS, GROUP_PREFIX, REPORTS, TRACES, ReportSettings
from tocsin.events import ACTION_TAKEN, RUN_NEWS, SOURCE

from tocsin_cdk.capture import CaptureLocation
from tocsin_cdk.constants import FUNCTIONS
from tocsin_cdk.function import PythonFunction
from tocsin_cdk.options import DeploymentOptions
from tocsin_cdk.queues import WorkQueue
from tocsin_cdk.state import State

TIMEOUT = Duration.seconds(120)


class Reports(Construct):
    """The function ``report``, its queue, and the rule that brings news and actions from the bus.

    It reads runs, checkpoints, traces and groups of alerts, and writes reports and nothing else. It
    has a queue of its own, so that no alert waits for it.
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
        bus: events.IEventBus,
    ) -> None:
        super().__init__(scope, id_)
        self.work = WorkQueue(self, "Work", timeout=TIMEOUT)
        self.report = PythonFunction(
            self,
            "Report",
            folder=FUNCTIONS / "report",
            options=options,
            layers=[layer],
            timeout=TIMEOUT,
            memory=options.memory["report"],
            settings=ReportSettings(
                table=state.table.table_name,
                state_bucket=state.bucket.bucket_name,
                report_queue_url=self.work.queue.queue_url,
            ),
        )
        self.report.function.add_event_source(
            sources.SqsEventSource(
                self.work.queue, batch_size=1, max_concurrency=options.concurrency["report"]
            )
        )
        self.report.allow(["sqs:SendMessage"], [self.work.queue.queue_arn])
        capture.grant_read(self.report)
        state.grant_read(self.report, CHECKPOINTS, TRACES, REPORTS)
        state.grant_write(self.report, REPORTS)
        groups = {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": [f"{GROUP_PREFIX}*"]}}
        self.report.allow(["dynamodb:GetItem"], [state.table.table_arn], groups)
        events.Rule(
            self,
            "News",
            description="What commits of a run and actions ask report to show",
            event_bus=bus,
            event_pattern=events.EventPattern(
                source=[SOURCE], detail_type=[RUN_NEWS, ACTION_TAKEN]
            ),
            targets=[targets.SqsQueue(self.work.queue, dead_letter_queue=self.work.dead_letters)],
        )

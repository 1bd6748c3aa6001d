"""Acts on what rules found: stops jobs, tells people, publishes metrics."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_event_sources as sources
from constructs import Construct

from infra.capture import Capture
from infra.constants import EVENT_SOURCE, ROOT, STATUS_CHANGE, STOP_REQUEST
from infra.evaluation import allow_on_training_jobs
from infra.function import PythonFunction
from infra.options import Options
from infra.queues import WorkQueue
from infra.state import State
from infra.topics import Topics

TIMEOUT = Duration.seconds(30)
CONCURRENCY = 3  # beside evaluate's, see there


class Actions(Construct):
    """The function ``act``, its queue, and the rule that brings status changes from the bus."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        options: Options,
        layer: lambda_.ILayerVersion,
        capture: Capture,
        state: State,
        bus: events.IEventBus,
        topics: Topics,
    ) -> None:
        super().__init__(scope, id_)
        self.work = WorkQueue(self, "Work", timeout=TIMEOUT)
        self.act = PythonFunction(
            self,
            "Act",
            folder=ROOT / "functions" / "act",
            options=options,
            layers=[layer],
            timeout=TIMEOUT,
            memory=512,
            environment={
                "TOCSIN_TABLE": state.table.table_name,
                "TOCSIN_BUS": bus.event_bus_name,
                "TOCSIN_TOPIC_ARN": topics.alerts.topic_arn,
                "TOCSIN_EMAILS": str(bool(options.emails)).lower(),
                "TOCSIN_PHONES": str(bool(options.phones)).lower(),
                "TOCSIN_ALLOWED_RECIPIENTS": ",".join(options.allowed_recipients),
            },
        )
        self.act.function.add_event_source(
            sources.SqsEventSource(self.work.queue, batch_size=1, max_concurrency=CONCURRENCY)
        )
        capture.grant_write(self.act, STOP_REQUEST)
        self.act.allow(
            [f"dynamodb:{verb}Item" for verb in ("Get", "Put", "Update", "Delete")],
            [state.table.table_arn],
        )
        allow_on_training_jobs(self.act, "DescribeTrainingJob", "StopTrainingJob", "ListTags")
        self.act.allow(["sns:Publish"], [topics.alerts.topic_arn])
        self.act.allow(["kms:Decrypt", "kms:GenerateDataKey"], [topics.key.key_arn])
        self.act.allow(["events:PutEvents"], [bus.event_bus_arn])
        self.act.allow_metrics()
        events.Rule(
            self,
            "StatusChanged",
            description="A rule's status has changed",
            event_bus=bus,
            event_pattern=events.EventPattern(source=[EVENT_SOURCE], detail_type=[STATUS_CHANGE]),
            targets=[targets.SqsQueue(self.work.queue, dead_letter_queue=self.work.dead_letters)],
        )

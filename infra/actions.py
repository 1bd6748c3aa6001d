"""Acts on what rules found: stops jobs, tells people, publishes metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import Aws, Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_event_sources as sources
from constructs import Construct
from tocsin.events import RUN_SUMMARY, SOURCE, STATUS_CHANGE
from tocsin.model import RuleStatus
from tocsin.tensors import STOP

from infra.capture import Capture
from infra.constants import ROOT, WEBHOOKS
from infra.evaluation import allow_on_training_jobs
from infra.function import PythonFunction
from infra.options import Options
from infra.queues import WorkQueue
from infra.state import State
from infra.topics import Topics

TIMEOUT = Duration.seconds(30)
CONCURRENCY = 3  # beside evaluate's, see there


class Actions(Construct):
    """The function ``act``, its queue, and the rule that brings status changes and summaries from
    the bus. ``dashboard`` is the address that messages refer to.

    It sends itself messages to look again later and to try again what failed; Lambda would take
    that for a runaway loop, so its loop detection is off.
    """

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
        dashboard: str,
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
            recursive=True,
            environment={
                "TOCSIN_TABLE": state.table.table_name,
                "TOCSIN_STATE_BUCKET": state.bucket.bucket_name,
                "TOCSIN_ACT_QUEUE_URL": self.work.queue.queue_url,
                "TOCSIN_BUS": bus.event_bus_name,
                "TOCSIN_TOPIC_ARN": topics.alerts.topic_arn,
                "TOCSIN_EMAILS": ",".join(options.emails),
                "TOCSIN_PHONES": ",".join(options.phones),
                "TOCSIN_ALLOWED_RECIPIENTS": ",".join(options.allowed_recipients),
                "TOCSIN_WEBHOOKS": ",".join(options.webhooks),
                "TOCSIN_SMS_MONTHLY_CAP": str(options.sms_monthly_cap),
                "TOCSIN_STOP_GUARD": options.stop_guard,
                "TOCSIN_DASHBOARD": dashboard,
            },
        )
        self.act.function.add_event_source(
            sources.SqsEventSource(self.work.queue, batch_size=1, max_concurrency=CONCURRENCY)
        )
        capture.grant_write(self.act, STOP)
        capture.grant_index(self.act)
        state.grant_read(self.act)
        self.act.allow(
            [f"dynamodb:{verb}Item" for verb in ("Get", "Put", "Update")], [state.table.table_arn]
        )
        self.act.allow(["sqs:SendMessage"], [self.work.queue.queue_arn])
        allow_on_training_jobs(self.act, "DescribeTrainingJob", "StopTrainingJob", "ListTags")
        self._allow_telling(topics)
        self._allow_webhooks(options.webhooks)
        self.act.allow(["kms:Decrypt", "kms:GenerateDataKey"], [topics.key.key_arn])
        self.act.allow(["events:PutEvents"], [bus.event_bus_arn])
        self.act.allow_metrics()
        # What neither fires nor is over asks for no decision.
        fired, over = (
            {key: [RuleStatus.ISSUES_FOUND.value]}
            for key in ("RuleEvaluationStatus", "PreviousStatus")
        )
        self._on("Fired", "A rule fires", bus, STATUS_CHANGE, fired)
        self._on("Over", "What a rule has found is over", bus, STATUS_CHANGE, over)
        self._on("RunEnded", "A run has come to its end", bus, RUN_SUMMARY)

    def _on(
        self,
        id_: str,
        description: str,
        bus: events.IEventBus,
        detail_type: str,
        detail: Mapping[str, list[str]] | None = None,
    ) -> None:
        """Brings events of one kind from the bus to the queue."""
        events.Rule(
            self,
            id_,
            description=description,
            event_bus=bus,
            event_pattern=events.EventPattern(
                source=[SOURCE], detail_type=[detail_type], detail=detail
            ),
            targets=[targets.SqsQueue(self.work.queue, dead_letter_queue=self.work.dead_letters)],
        )

    def _allow_telling(self, topics: Topics) -> None:
        """To publish alerts, and to subscribe people whom rules name; nothing is unsubscribed."""
        topic = [topics.alerts.topic_arn]
        self.act.allow(["sns:Publish", "sns:ListSubscriptionsByTopic"], topic)
        people = {"StringEquals": {"sns:Protocol": ["email", "sms"]}}
        self.act.allow(["sns:Subscribe"], topic, people)
        self.act.allow(
            ["sns:GetSubscriptionAttributes"],
            ["*"],
            wildcard="GetSubscriptionAttributes knows no resources; it reads, and changes nothing.",
        )

    def _allow_webhooks(self, names: Sequence[str]) -> None:
        """To read these endpoints' parameters. The key that AWS manages decrypts them for whoever
        may read them; a key of the deployment's owner has to be granted by its policy.
        """
        if names:
            parameters = f"arn:{Aws.PARTITION}:ssm:{Aws.REGION}:{Aws.ACCOUNT_ID}:parameter"
            self.act.allow(
                ["ssm:GetParameter"], [f"{parameters}{WEBHOOKS}{name}" for name in names]
            )

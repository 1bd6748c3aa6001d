"""Acts on status changes: stops jobs, notifies people, publishes metrics."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Aws, Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_event_sources as sources
from aws_cdk import aws_stepfunctions as stepfunctions
from constructs import Construct
from tocsin.aws.settings import CHECKPOINTS, REPORTS, ActSettings
from tocsin.events import RUN_NEWS, SOURCE
from tocsin.tensors import STOP

from tocsin_cdk.capture import CaptureLocation
from tocsin_cdk.constants import FUNCTIONS
from tocsin_cdk.evaluation import allow_on_training_jobs
from tocsin_cdk.function import PythonFunction
from tocsin_cdk.options import DeploymentOptions
from tocsin_cdk.queues import WorkQueue
from tocsin_cdk.state import State
from tocsin_cdk.topics import Topics

TIMEOUT = Duration.seconds(30)


class Actions(Construct):
    """The function ``act``, its queue, and the rule that brings the news of runs from the bus.
    ``dashboard`` is the address that messages refer to.

    It sends itself messages to look again later; Lambda would take that for a runaway loop, so its
    loop detection is off.
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
        topics: Topics,
        dashboard: str,
    ) -> None:
        super().__init__(scope, id_)
        self.work = WorkQueue(self, "Work", timeout=TIMEOUT)
        self.act = PythonFunction(
            self,
            "Act",
            folder=FUNCTIONS / "act",
            options=options,
            layers=[layer],
            timeout=TIMEOUT,
            memory=options.memory["act"],
            recursive=True,
            settings=ActSettings(
                table=state.table.table_name,
                state_bucket=state.bucket.bucket_name,
                act_queue_url=self.work.queue.queue_url,
                bus=bus.event_bus_name,
                topic_arn=topics.alerts.topic_arn,
                emails=options.emails,
                phones=options.phones,
                allowed_recipients=options.allowed_recipients,
                webhooks=options.webhooks,
                sms_monthly_cap=options.sms_monthly_cap,
                stop_guard=options.stop_guard,
                stop_ceiling=options.stop_ceiling,
                sms_run_cap=options.sms_run_cap,
                email_run_cap=options.email_run_cap,
                metric_run_cap=options.metric_run_cap,
                deliverers=options.concurrency["act"] - 1,  # one is free for stops
                webhook_run_cap=options.webhook_run_cap,
                capture_prefix=options.capture_prefix,
                dashboard=dashboard,
                stage=options.stage or None,
                member_roles=options.member_settings,
                relaunch_roles=options.relaunch,
            ),
        )
        self.act.function.add_event_source(
            sources.SqsEventSource(
                self.work.queue,
                batch_size=1,
                report_batch_item_failures=True,  # else Lambda slows down for all after a failure
                max_concurrency=options.concurrency["act"],
            )
        )
        capture.grant_write(self.act, STOP)
        capture.grant_index(self.act)
        state.grant_read(self.act, CHECKPOINTS, REPORTS)  # its links to reports open by its role
        self.act.allow(
            [f"dynamodb:{verb}Item" for verb in ("Get", "Put", "Update")], [state.table.table_arn]
        )
        self.act.allow(["sqs:SendMessage"], [self.work.queue.queue_arn])
        allow_on_training_jobs(self.act, "DescribeTrainingJob", "StopTrainingJob", "ListTags")
        if options.member_roles:
            self.act.allow(["sts:AssumeRole"], [*options.member_roles])
        self._allow_notifying(topics)
        self._allow_webhooks(options.webhooks, options.names.webhooks)
        self.act.allow(["kms:Decrypt", "kms:GenerateDataKey"], [topics.key.key_arn])
        self.act.allow(["events:PutEvents"], [bus.event_bus_arn])
        self.act.allow_metrics()
        events.Rule(
            self,
            "News",
            description="What one commit of a run asks act to decide",
            event_bus=bus,
            event_pattern=events.EventPattern(source=[SOURCE], detail_type=[RUN_NEWS]),
            targets=[targets.SqsQueue(self.work.queue, dead_letter_queue=self.work.dead_letters)],
        )

    def may_start(self, machine: stepfunctions.CfnStateMachine) -> None:
        """Let ``act`` start the machine that starts jobs again."""
        self.act.function.add_environment(ActSettings.variable("relaunch_machine"), machine.ref)
        self.act.allow(["states:StartExecution"], [machine.ref])

    def _allow_notifying(self, topics: Topics) -> None:
        """Allows to publish notifications and to subscribe the recipients of rules."""
        topic = [topics.alerts.topic_arn]
        self.act.allow(["sns:Publish", "sns:ListSubscriptionsByTopic"], topic)
        # A phone has no ARN: all but topics and applications are phones.
        self.act.role.add_to_policy(
            iam.PolicyStatement(
                actions=["sns:Publish"], not_resources=[f"arn:{Aws.PARTITION}:sns:*:*:*"]
            )
        )
        people = {"StringEquals": {"sns:Protocol": "email"}}
        self.act.allow(["sns:Subscribe"], topic, people)
        self.act.allow(
            ["sns:GetSubscriptionAttributes"],
            ["*"],
            wildcard="GetSubscriptionAttributes knows no resources; it reads, and changes nothing.",
        )

    def _allow_webhooks(self, names: Sequence[str], prefix: str) -> None:
        """Allows to read the parameters of the endpoints.

        The key that AWS manages decrypts them for anybody who may read them. The owner of another
        key has to grant it by its policy.
        """
        if names:
            parameters = f"arn:{Aws.PARTITION}:ssm:{Aws.REGION}:{Aws.ACCOUNT_ID}:parameter"
            self.act.allow(["ssm:GetParameter"], [f"{parameters}{prefix}{name}" for name in names])

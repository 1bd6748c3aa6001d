"""Evaluates new steps of runs."""

from __future__ import annotations

from aws_cdk import Aws, Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_event_sources as sources
from constructs import Construct
from tocsin.aws.settings import CHECKPOINTS, TRACES, EvaluateSettings
from tocsin.model import TERMINAL_JOB_STATUSES
from tocsin.tensors import END_MARKER, WATCH

from tocsin_cdk.capture import CaptureLocation
from tocsin_cdk.constants import FUNCTIONS
from tocsin_cdk.function import PythonFunction
from tocsin_cdk.options import DeploymentOptions
from tocsin_cdk.queues import WorkQueue
from tocsin_cdk.state import State
from tocsin_cdk.watch_file import default_watch

TIMEOUT = Duration.seconds(60)
BATCH = 10  # messages; more need a window, and every stop would wait for it


class EvaluateFunction(Construct):
    """The function ``evaluate``, and the rule that brings SageMaker's events to its queue.

    It takes up to ten messages at a time. Before its time is up it sends itself a hint to go on.
    Lambda would take that for a runaway loop, so its loop detection is off.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        options: DeploymentOptions,
        layer: lambda_.ILayerVersion,
        work: WorkQueue,
        capture: CaptureLocation,
        state: State,
        bus: events.IEventBus,
    ) -> None:
        super().__init__(scope, id_)
        self.evaluate = PythonFunction(
            self,
            "Evaluate",
            folder=FUNCTIONS / "evaluate",
            files={WATCH: default_watch(options.watch_file, options.recipients, options.webhooks)},
            options=options,
            layers=[layer],
            timeout=TIMEOUT,
            memory=options.memory["evaluate"],
            recursive=True,
            settings=EvaluateSettings(
                table=state.table.table_name,
                state_bucket=state.bucket.bucket_name,
                evaluate_queue_url=work.queue.queue_url,
                bus=bus.event_bus_name,
                job_metrics=options.job_metrics,
                metric_run_cap=options.metric_run_cap,
                capture_prefix=options.capture_prefix,
                backlog_turns=options.concurrency["evaluate"] - 1,  # one is free for new steps
                stage=options.stage or None,
                member_roles=options.member_settings,
                prices=options.price_settings,
            ),
        )
        self.evaluate.function.add_event_source(
            sources.SqsEventSource(
                work.queue,
                batch_size=BATCH,
                report_batch_item_failures=True,
                max_concurrency=options.concurrency["evaluate"],
            )
        )
        capture.grant_read(self.evaluate)
        capture.grant_write(self.evaluate, END_MARKER)
        state.grant_read(self.evaluate, CHECKPOINTS, TRACES)
        state.grant_write(self.evaluate, CHECKPOINTS, TRACES)
        self.evaluate.allow(["dynamodb:GetItem", "dynamodb:UpdateItem"], [state.table.table_arn])
        self.evaluate.allow(["sqs:SendMessage"], [work.queue.queue_arn])
        self.evaluate.allow(["events:PutEvents"], [bus.event_bus_arn])
        allow_on_training_jobs(self.evaluate, "DescribeTrainingJob", "ListTags")
        if options.member_roles:
            self.evaluate.allow(["sts:AssumeRole"], [*options.member_roles])
            self._accept_events_of(options)
        self.evaluate.allow_metrics()
        events.Rule(
            self,
            "TrainingJobEnded",
            description="SageMaker training jobs that have ended",
            event_pattern=events.EventPattern(
                source=["aws.sagemaker"],
                detail_type=["SageMaker Training Job State Change"],
                detail={"TrainingJobStatus": list(TERMINAL_JOB_STATUSES)},
            ),
            targets=[targets.SqsQueue(work.queue, dead_letter_queue=work.dead_letters)],
        )

    def _accept_events_of(self, options: DeploymentOptions) -> None:
        """Let the member accounts forward SageMaker's events to this account's default bus."""
        bus = f"arn:{Aws.PARTITION}:events:{Aws.REGION}:{Aws.ACCOUNT_ID}:event-bus/default"
        for account in options.member_accounts:
            events.CfnEventBusPolicy(
                self,
                f"Member{account}",
                statement_id=f"{options.names.stack}Member{account}",
                statement={
                    "Effect": "Allow",
                    "Principal": {"AWS": f"arn:{Aws.PARTITION}:iam::{account}:root"},
                    "Action": "events:PutEvents",
                    "Resource": bus,
                },
            )


def allow_on_training_jobs(function: PythonFunction, *operations: str) -> None:
    """Let a function call these operations of SageMaker on training jobs."""
    arn = f"arn:{Aws.PARTITION}:sagemaker:{Aws.REGION}:{Aws.ACCOUNT_ID}:training-job/*"
    function.allow(
        [f"sagemaker:{operation}" for operation in operations],
        [arn],
        wildcard="Jobs are not known before they run; act checks whether a job belongs to a run.",
    )

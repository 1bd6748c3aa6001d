"""Evaluates new steps of runs."""

from __future__ import annotations

from aws_cdk import Aws, Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_event_sources as sources
from constructs import Construct
from tocsin.aws.settings import EvaluateSettings
from tocsin.model import TERMINAL_JOB_STATUSES
from tocsin.tensors import END_MARKER, WATCH

from infra.capture import CaptureLocation
from infra.constants import ROOT
from infra.function import PythonFunction
from infra.options import DeploymentOptions
from infra.queues import WorkQueue
from infra.state import State
from infra.watch_file import default_watch

TIMEOUT = Duration.seconds(60)
# A new account may run 10 invocations at a time. Three of act and one of patrol fit beside these.
# Otherwise a function could be throttled until its messages become dead letters.
CONCURRENCY = 6


class EvaluateFunction(Construct):
    """The function ``evaluate``, and the rule that brings SageMaker's events to its queue.

    It takes one message at a time. Before its time is up it sends itself a hint to go on. Lambda
    would take that for a runaway loop, so its loop detection is off.
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
            folder=ROOT / "functions" / "evaluate",
            files={WATCH: default_watch(options.watch_file, options.recipients, options.webhooks)},
            options=options,
            layers=[layer],
            timeout=TIMEOUT,
            memory=1024,
            recursive=True,
            settings=EvaluateSettings(
                table=state.table.table_name,
                state_bucket=state.bucket.bucket_name,
                evaluate_queue_url=work.queue.queue_url,
                bus=bus.event_bus_name,
                job_metrics=options.job_metrics,
            ),
        )
        self.evaluate.function.add_event_source(
            sources.SqsEventSource(work.queue, batch_size=1, max_concurrency=CONCURRENCY)
        )
        capture.grant_read(self.evaluate)
        capture.grant_write(self.evaluate, END_MARKER)
        state.grant_read(self.evaluate)
        state.grant_write(self.evaluate)
        self.evaluate.allow(["dynamodb:GetItem", "dynamodb:UpdateItem"], [state.table.table_arn])
        self.evaluate.allow(["sqs:SendMessage"], [work.queue.queue_arn])
        self.evaluate.allow(["events:PutEvents"], [bus.event_bus_arn])
        allow_on_training_jobs(self.evaluate, "DescribeTrainingJob", "ListTags")
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


def allow_on_training_jobs(function: PythonFunction, *operations: str) -> None:
    """Lets a function call these operations of SageMaker on training jobs."""
    arn = f"arn:{Aws.PARTITION}:sagemaker:{Aws.REGION}:{Aws.ACCOUNT_ID}:training-job/*"
    function.allow(
        [f"sagemaker:{operation}" for operation in operations],
        [arn],
        wildcard="Jobs are not known before they run; act checks whether a job belongs to a run.",
    )

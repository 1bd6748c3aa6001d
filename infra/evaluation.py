"""Wakes up for a run and evaluates what is new in it."""

from __future__ import annotations

from aws_cdk import Aws, Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_event_sources as sources
from constructs import Construct
from tocsin.model import TERMINAL_JOB_STATUSES
from tocsin.tensors import END_MARKER, WATCH

from infra.capture import Capture
from infra.constants import ROOT
from infra.function import PythonFunction
from infra.options import Options
from infra.queues import WorkQueue
from infra.state import State
from infra.watch_file import default_watch

TIMEOUT = Duration.seconds(60)
# All functions of a new account may run 10 at a time before Amazon grants more. With three for act
# and one for patrol they find room there, and none is throttled until its message is given up.
CONCURRENCY = 6


class Evaluation(Construct):
    """The function ``evaluate``, one message at a time, and what SageMaker says of its jobs.

    It sends itself hints to go on after its time is up, each of which has advanced the run; Lambda
    would take that for a runaway loop, so its loop detection is off.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        options: Options,
        layer: lambda_.ILayerVersion,
        work: WorkQueue,
        capture: Capture,
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
            environment={
                "TOCSIN_TABLE": state.table.table_name,
                "TOCSIN_STATE_BUCKET": state.bucket.bucket_name,
                "TOCSIN_EVALUATE_QUEUE_URL": work.queue.queue_url,
                "TOCSIN_BUS": bus.event_bus_name,
                "TOCSIN_JOB_METRICS": str(options.job_metrics).lower(),
            },
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
        allow_on_training_jobs(self.evaluate, "DescribeTrainingJob")
        self.evaluate.allow_metrics()
        events.Rule(
            self,
            "TrainingJobEnded",
            description="SageMaker training jobs that have come to their end",
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
        wildcard="Jobs are not known before they run; which belong to a run is checked by act.",
    )

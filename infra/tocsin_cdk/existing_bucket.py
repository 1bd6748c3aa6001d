"""An existing bucket, watched through EventBridge."""

from __future__ import annotations

from aws_cdk import Aws, CustomResource, Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_s3 as s3
from constructs import Construct
from tocsin.tensors import COLLECTIONS, END_MARKER, INDEX, WATCH

from tocsin_cdk.constants import PACKAGE
from tocsin_cdk.function import PythonFunction
from tocsin_cdk.options import DeploymentOptions
from tocsin_cdk.queues import WorkQueue


class ExistingBucket(Construct):
    """The bucket of ``captureBucket``, in this account and region. Its objects never change.

    S3 notifications cannot be used: an overlap with an existing filter would roll the deployment
    back. Instead its EventBridge events are switched on, beside the notifications that it has. They
    stay on when the stack is deleted, because others may use them by then.
    """

    def __init__(
        self, scope: Construct, id_: str, *, name: str, options: DeploymentOptions, work: WorkQueue
    ) -> None:
        super().__init__(scope, id_)
        self.bucket = s3.Bucket.from_bucket_name(self, "Bucket", name)
        prefix = options.capture_prefix  # it may be a run itself: no slash before the names
        events.Rule(
            self,
            "ObjectCreated",
            description="New files of runs: something to evaluate, or the end",
            event_pattern=events.EventPattern(
                source=["aws.s3"],
                detail_type=["Object Created"],
                detail={
                    "bucket": {"name": [name]},
                    "object": {
                        "key": [
                            {"wildcard": f"{prefix}*{INDEX}*.json"},
                            {"wildcard": f"{prefix}*{COLLECTIONS}*.json"},
                            {"wildcard": f"{prefix}*profiler-output/system/*.json"},
                            {"wildcard": f"{prefix}*{WATCH}"},
                            {"wildcard": f"{prefix}*{END_MARKER}"},
                        ]
                    },
                },
            ),
            targets=[targets.SqsQueue(work.queue, dead_letter_queue=work.dead_letters)],
        )
        self._switch_events_on(options)

    def _switch_events_on(self, options: DeploymentOptions) -> None:
        switch = PythonFunction(
            self,
            "Switch",
            folder=PACKAGE / "bucket_events",
            options=options,
            timeout=Duration.seconds(30),
            memory=256,
        )
        switch.allow(
            ["s3:GetBucketLocation", "s3:GetBucketNotification", "s3:PutBucketNotification"],
            [self.bucket.bucket_arn],
        )
        events_on = CustomResource(
            self,
            "EventsOn",
            resource_type="Custom::BucketEvents",
            service_token=switch.function.function_arn,
            properties={"Bucket": self.bucket.bucket_name, "Account": Aws.ACCOUNT_ID},
        )
        events_on.node.add_dependency(switch.role)

"""A bucket that was there before: watched through EventBridge, its settings left in peace."""

from __future__ import annotations

from aws_cdk import Aws, CustomResource, Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_s3 as s3
from constructs import Construct
from tocsin.tensors import COLLECTIONS, END_MARKER, INDEX, WATCH

from infra.constants import ROOT
from infra.function import PythonFunction
from infra.options import Options
from infra.queues import WorkQueue


class ExistingBucket(Construct):
    """The bucket named by ``captureBucket``, of this account and region. Neither the stack nor its
    end changes what lies in it.

    Its own notifications cannot be used, for an overlap with somebody's filter would roll the
    deployment back. So its EventBridge events are switched on, beside the notifications it has,
    and stay on when the stack goes, since others may rely on them by then.
    """

    def __init__(
        self, scope: Construct, id_: str, *, name: str, options: Options, work: WorkQueue
    ) -> None:
        super().__init__(scope, id_)
        self.bucket = s3.Bucket.from_bucket_name(self, "Bucket", name)
        prefix = options.capture_prefix  # which may be a run itself: no slash before the names
        events.Rule(
            self,
            "ObjectCreated",
            description="New files of runs that say what there is to evaluate, or that it is over",
            event_pattern=events.EventPattern(
                source=["aws.s3"],
                detail_type=["Object Created"],
                detail={
                    "bucket": {"name": [name]},
                    "object": {
                        "key": [
                            {"wildcard": f"{prefix}*{INDEX}*.json"},
                            {"wildcard": f"{prefix}*{COLLECTIONS}*.json"},
                            {"wildcard": f"{prefix}*{WATCH}"},
                            {"wildcard": f"{prefix}*{END_MARKER}"},
                        ]
                    },
                },
            ),
            targets=[targets.SqsQueue(work.queue, dead_letter_queue=work.dead_letters)],
        )
        self._switch_events_on(options)

    def _switch_events_on(self, options: Options) -> None:
        switch = PythonFunction(
            self,
            "Switch",
            folder=ROOT / "infra" / "bucket_events",
            options=options,
            timeout=Duration.seconds(30),
            memory=256,
        )
        switch.allow(
            ["s3:GetBucketNotification", "s3:PutBucketNotification"], [self.bucket.bucket_arn]
        )
        events_on = CustomResource(
            self,
            "EventsOn",
            resource_type="Custom::BucketEvents",
            service_token=switch.function.function_arn,
            properties={"Bucket": self.bucket.bucket_name, "Account": Aws.ACCOUNT_ID},
        )
        events_on.node.add_dependency(switch.role)

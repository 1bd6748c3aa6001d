"""A bucket for runs that the stack makes. It notifies the evaluate queue of new files."""

from __future__ import annotations

from typing import cast
from urllib.parse import quote

from aws_cdk import Aws, Duration, RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct
from tocsin.tensors import END_MARKER, PACE, STOP, TRACE, WATCH

from tocsin_cdk.nag import acknowledge
from tocsin_cdk.options import DeploymentOptions
from tocsin_cdk.queues import WorkQueue


class CaptureBucket(Construct):
    """A private bucket that accepts TLS only. It holds runs, so it stays when the stack is deleted.

    Objects are encrypted with S3's keys, or with the key of ``captureKeyArn``.
    """

    def __init__(
        self, scope: Construct, id_: str, *, options: DeploymentOptions, work: WorkQueue
    ) -> None:
        super().__init__(scope, id_)
        arn = options.capture_key_arn
        key = kms.Key.from_key_arn(self, "Key", arn) if arn else None
        self.bucket = s3.Bucket(
            self,
            "Bucket",
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            encryption=s3.BucketEncryption.KMS if key else s3.BucketEncryption.S3_MANAGED,
            encryption_key=key,
            bucket_key_enabled=True if key else None,
            enforce_ssl=True,
            lifecycle_rules=[
                s3.LifecycleRule(abort_incomplete_multipart_upload_after=Duration.days(1))
            ],
            removal_policy=RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
        )
        acknowledge(
            self.bucket,
            {
                "S1": "Access logs of a bucket that takes thousands of small files an hour would "
                "cost more than the bucket; CloudTrail data events can be switched on where needed."
            },
        )
        self._notify(options.capture_prefix, work)
        if options.member_accounts:
            self._share(options)

    def _share(self, options: DeploymentOptions) -> None:
        """Let training roles of each member account write below its prefixes.

        In another account a bucket needs both: this policy and one of the role. This one names no
        tag: a member account gives its roles whatever tags it likes.
        """
        names = [f"{run}{name}" for run in ("*/", "") for name in (WATCH, STOP, PACE, TRACE)]
        for account, prefixes in options.member_accounts.items():
            for action, inside in (("s3:PutObject", ["*"]), ("s3:GetObject", names)):
                self.bucket.add_to_resource_policy(
                    iam.PolicyStatement(
                        principals=[iam.AccountPrincipal(account)],
                        actions=[action],
                        resources=[
                            self.bucket.arn_for_objects(prefix + name)
                            for prefix in prefixes
                            for name in inside
                        ],
                    )
                )

    def _notify(self, prefix: str, work: WorkQueue) -> None:
        """Send S3's notifications to the queue, as a property of the bucket in the template.

        S3 tests the queue before it accepts the property, so the queue's policy comes first. The
        policy cannot name the bucket, which would be a circle: it names the account.
        """
        work.queue.add_to_resource_policy(
            iam.PolicyStatement(
                principals=[iam.ServicePrincipal("s3.amazonaws.com")],
                actions=["sqs:SendMessage"],
                resources=[work.queue.queue_arn],
                conditions={"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}},
            )
        )
        bucket = cast("s3.CfnBucket", self.bucket.node.default_child)
        bucket.notification_configuration = s3.CfnBucket.NotificationConfigurationProperty(
            queue_configurations=[
                _queue_configuration(work, prefix, suffix) for suffix in (".json", END_MARKER)
            ]
        )
        bucket.node.add_dependency(work.queue.node.find_child("Policy"))


def _queue_configuration(
    work: WorkQueue, prefix: str, suffix: str
) -> s3.CfnBucket.QueueConfigurationProperty:
    # S3 takes other characters than these in a filter as in a URL.
    encoded = quote(prefix, safe="/!-_.'()")
    filters = {"prefix": encoded, "suffix": suffix} if prefix else {"suffix": suffix}
    return s3.CfnBucket.QueueConfigurationProperty(
        event="s3:ObjectCreated:*",
        queue=work.queue.queue_arn,
        filter=s3.CfnBucket.NotificationFilterProperty(
            s3_key=s3.CfnBucket.S3KeyFilterProperty(
                rules=[
                    s3.CfnBucket.FilterRuleProperty(name=name, value=value)
                    for name, value in filters.items()
                ]
            )
        ),
    )

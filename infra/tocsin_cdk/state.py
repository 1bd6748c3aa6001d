"""The state of the functions: checkpoints, traces, reports in a bucket, coordination in a table."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_s3 as s3
from constructs import Construct
from tocsin.aws.settings import CHECKPOINTS, DUE_INDEX

from tocsin_cdk.function import PythonFunction
from tocsin_cdk.nag import acknowledge
from tocsin_cdk.options import DeploymentOptions


class State(Construct):
    """The private state bucket and the table.

    The table is deleted with the stack. A bucket that is not empty cannot be deleted, so it stays.
    An object is deleted ``retainDays`` after it was last written.
    """

    def __init__(self, scope: Construct, id_: str, *, options: DeploymentOptions) -> None:
        super().__init__(scope, id_)
        self.bucket = s3.Bucket(
            self,
            "Bucket",
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            encryption=s3.BucketEncryption.S3_MANAGED,
            enforce_ssl=True,
            lifecycle_rules=[
                s3.LifecycleRule(
                    expiration=Duration.days(options.retain_days),
                    abort_incomplete_multipart_upload_after=Duration.days(1),
                )
            ],
            removal_policy=RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
        )
        acknowledge(
            self.bucket,
            {
                "S1": "Only our own functions may reach this bucket, and a few objects per run are "
                "rewritten in it; access logs would be larger than the data."
            },
        )
        self.table = dynamodb.Table(
            self,
            "Table",
            partition_key=_attribute("pk", dynamodb.AttributeType.STRING),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            time_to_live_attribute="expires_at",
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            removal_policy=RemovalPolicy.DESTROY,
        )
        self.table.add_global_secondary_index(
            index_name=DUE_INDEX,
            partition_key=_attribute("due_shard", dynamodb.AttributeType.STRING),
            sort_key=_attribute("due_at", dynamodb.AttributeType.NUMBER),
            projection_type=dynamodb.ProjectionType.KEYS_ONLY,
        )

    @property
    def due_index_arn(self) -> str:
        """The ARN of the index ``due``."""
        return f"{self.table.table_arn}/index/{DUE_INDEX}"

    def grant_read(self, function: PythonFunction, *prefixes: str) -> None:
        """Let a function list checkpoints, and read what is below the prefixes."""
        self._allow(function, "s3:GetObject", prefixes)
        # S3 answers "no such key" only to a role that may list; that check has no prefix: IfExists.
        only = {"StringLikeIfExists": {"s3:prefix": f"{CHECKPOINTS}*"}}
        function.allow(["s3:ListBucket"], [self.bucket.bucket_arn], only)

    def grant_write(self, function: PythonFunction, *prefixes: str) -> None:
        """Let a function write below the prefixes."""
        self._allow(function, "s3:PutObject", prefixes)

    def _allow(self, function: PythonFunction, action: str, prefixes: Sequence[str]) -> None:
        function.allow(
            [action],
            [self.bucket.arn_for_objects(f"{prefix}*") for prefix in prefixes],
            wildcard="There is one such object for each run, and runs come and go.",
        )


def _attribute(name: str, type_: dynamodb.AttributeType) -> dynamodb.Attribute:
    return dynamodb.Attribute(name=name, type=type_)

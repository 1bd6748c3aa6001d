"""The AWS side of evaluation: one adapter per service."""

from tocsin.evaluation.aws._checkpoints import S3Checkpoints, checkpoint_key
from tocsin.evaluation.aws._connect import (
    PatrolSettings,
    Settings,
    connect,
    connect_patrol,
    read_settings,
)
from tocsin.evaluation.aws._coordination import DUE_SHARD, DynamoCoordination
from tocsin.evaluation.aws._detail import detail
from tocsin.evaluation.aws._hints import SqsHints
from tocsin.evaluation.aws._jobs import SageMakerJobs
from tocsin.evaluation.aws._publisher import AwsPublisher, NotPublished

__all__ = [
    "DUE_SHARD",
    "AwsPublisher",
    "DynamoCoordination",
    "NotPublished",
    "PatrolSettings",
    "S3Checkpoints",
    "SageMakerJobs",
    "Settings",
    "SqsHints",
    "checkpoint_key",
    "connect",
    "connect_patrol",
    "detail",
    "read_settings",
]

"""The AWS side of evaluation: one adapter per service."""

from tocsin.evaluation.aws._checkpoints import S3Checkpoints, checkpoint_key
from tocsin.evaluation.aws._connect import Settings, connect, read_settings
from tocsin.evaluation.aws._coordination import (
    DUE_SHARD,
    RUN_PREFIX,
    DynamoCoordination,
    due_items,
)
from tocsin.evaluation.aws._hints import SqsHints, send_batch
from tocsin.evaluation.aws._jobs import SageMakerJobs
from tocsin.evaluation.aws._publisher import AwsPublisher, NotPublished

__all__ = [
    "DUE_SHARD",
    "RUN_PREFIX",
    "AwsPublisher",
    "DynamoCoordination",
    "NotPublished",
    "S3Checkpoints",
    "SageMakerJobs",
    "Settings",
    "SqsHints",
    "checkpoint_key",
    "connect",
    "due_items",
    "read_settings",
    "send_batch",
]

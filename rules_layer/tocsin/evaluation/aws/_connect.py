"""The world of a deployed evaluate function."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

import boto3
import msgspec
from botocore.config import Config

from tocsin.evaluation._ports import World
from tocsin.evaluation.aws._checkpoints import S3Checkpoints
from tocsin.evaluation.aws._coordination import DynamoCoordination
from tocsin.evaluation.aws._hints import SqsHints
from tocsin.evaluation.aws._jobs import SageMakerJobs
from tocsin.evaluation.aws._publisher import AwsPublisher
from tocsin.tensors import open_storage
from tocsin.watch import Watch


class Settings(msgspec.Struct, frozen=True, rename=lambda name: f"TOCSIN_{name.upper()}"):
    """The evaluate function's environment."""

    table: str
    state_bucket: str
    evaluate_queue_url: str
    bus: str
    job_metrics: bool = True


def read_settings(environment: Mapping[str, str] = os.environ) -> Settings:
    """Raises ValueError that names the variable which is missing or wrong."""
    try:
        return msgspec.convert(dict(environment), Settings, strict=False)
    except msgspec.ValidationError as error:
        raise ValueError(f"the function's environment is wrong: {error}") from error


def connect(settings: Settings, default: Watch) -> World:
    """Real clients, made once at cold start."""
    config = Config(
        retries={"mode": "standard", "max_attempts": 4},
        max_pool_connections=32,
        connect_timeout=5,
        read_timeout=20,
    )
    client: Any = partial(boto3.client, config=config)
    s3 = client("s3")
    return World(
        storage=lambda run: open_storage(run, client=s3),
        checkpoints=S3Checkpoints(s3, settings.state_bucket),
        coordination=DynamoCoordination(client("dynamodb"), settings.table, time.time),
        publisher=AwsPublisher(
            client("events"),
            client("cloudwatch"),
            settings.bus,
            time.time,
            settings.job_metrics,
        ),
        hints=SqsHints(client("sqs"), settings.evaluate_queue_url),
        jobs=SageMakerJobs(client("sagemaker")),
        default=default,
        now=time.time,
    )

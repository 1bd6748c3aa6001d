"""The world of the deployed functions."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, TypeVar

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

_Text = Annotated[str, msgspec.Meta(min_length=1)]
S = TypeVar("S", bound=msgspec.Struct)


class Settings(msgspec.Struct, frozen=True, rename=lambda name: f"TOCSIN_{name.upper()}"):
    """The evaluate function's environment: field ``table`` is ``TOCSIN_TABLE`` …"""

    table: _Text
    state_bucket: _Text
    evaluate_queue_url: _Text
    bus: _Text
    job_metrics: bool = True


def read_settings(kind: type[S], environment: Mapping[str, Any] = os.environ) -> S:
    """Raises ValueError that names the variable which is missing or wrong."""
    try:
        return msgspec.convert(dict(environment), kind, strict=False)
    except msgspec.ValidationError as error:
        raise ValueError(f"the function's environment is wrong: {error}") from error


def connect(settings: Settings, default: Watch) -> World:
    """Real clients, made once at cold start."""
    client = _clients()
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


def _clients() -> Any:
    config = Config(
        retries={"mode": "standard", "max_attempts": 4},
        max_pool_connections=32,
        connect_timeout=5,
        read_timeout=20,
    )
    return partial(boto3.client, config=config)

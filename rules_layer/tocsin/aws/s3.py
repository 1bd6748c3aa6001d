"""The checkpoints of runs as objects in the state bucket, committed with If-Match."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from tocsin.aws.clients import error_code
from tocsin.aws.settings import CHECKPOINTS
from tocsin.evaluation import (
    Checkpoint,
    CheckpointConflict,
    StoredCheckpoint,
    decode_checkpoint,
    encode_checkpoint,
)
from tocsin.tensors import job_name

_LOST = ("PreconditionFailed", "ConditionalRequestConflict", "412", "409")
_MISSING = ("NoSuchKey", "404")

UNREADABLE = ".unreadable"
"""Stands at the end of the key of a checkpoint that was put aside."""


@dataclass(frozen=True)
class S3Checkpoints:
    """One object a run; its ETag is the version."""

    client: Any
    bucket: str

    def load(self, run: str) -> StoredCheckpoint:
        try:
            answer = self.client.get_object(Bucket=self.bucket, Key=checkpoint_key(run))
        except ClientError as error:
            if error_code(error) in _MISSING:
                return StoredCheckpoint(Checkpoint(run), None)
            raise
        content, version = answer["Body"].read(), answer["ETag"]
        try:
            return StoredCheckpoint(decode_checkpoint(content), version)
        except ValueError as error:
            return StoredCheckpoint(Checkpoint(run), version, str(error))

    def save(self, checkpoint: Checkpoint, version: str | None) -> str:
        condition = {"IfNoneMatch": "*"} if version is None else {"IfMatch": version}
        try:
            answer = self.client.put_object(
                Bucket=self.bucket,
                Key=checkpoint_key(checkpoint.run),
                Body=encode_checkpoint(checkpoint),
                **condition,
            )
        except ClientError as error:
            if error_code(error) in (*_LOST, *_MISSING):
                raise CheckpointConflict(checkpoint.run) from error
            raise
        return str(answer["ETag"])

    def put_aside(self, run: str) -> None:
        key = checkpoint_key(run)
        source = {"Bucket": self.bucket, "Key": key}
        self.client.copy_object(Bucket=self.bucket, Key=f"{key}{UNREADABLE}", CopySource=source)


def checkpoint_key(run: str) -> str:
    """The key of a run's checkpoint: readable by the job, unique by the whole URL."""
    digest = hashlib.sha256(run.encode()).hexdigest()[:32]
    return f"{CHECKPOINTS}{job_name(run)[:200]}/{digest}.json.z"

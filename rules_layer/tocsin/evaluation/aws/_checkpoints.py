"""Checkpoints as objects in the state bucket, committed with If-Match."""

from __future__ import annotations

import hashlib
from typing import Any

from botocore.exceptions import ClientError

from tocsin.evaluation._checkpoint import Checkpoint, decode_checkpoint, encode_checkpoint
from tocsin.evaluation._ports import Conflict, Stored
from tocsin.tensors import job_name

_LOST = ("PreconditionFailed", "ConditionalRequestConflict", "412", "409")
_MISSING = ("NoSuchKey", "404")


class S3Checkpoints:
    """One object a run; its ETag is the version."""

    def __init__(self, s3: Any, bucket: str) -> None:
        self._s3 = s3
        self._bucket = bucket

    def load(self, run: str) -> Stored:
        try:
            answer = self._s3.get_object(Bucket=self._bucket, Key=checkpoint_key(run))
        except ClientError as error:
            if error.response["Error"]["Code"] in _MISSING:
                return Stored(Checkpoint(run), None)
            raise
        return Stored(decode_checkpoint(answer["Body"].read()), answer["ETag"])

    def save(self, checkpoint: Checkpoint, version: str | None) -> str:
        condition = {"IfNoneMatch": "*"} if version is None else {"IfMatch": version}
        try:
            answer = self._s3.put_object(
                Bucket=self._bucket,
                Key=checkpoint_key(checkpoint.run),
                Body=encode_checkpoint(checkpoint),
                **condition,
            )
        except ClientError as error:
            if error.response["Error"]["Code"] in (*_LOST, *_MISSING):
                raise Conflict(checkpoint.run) from error
            raise
        return str(answer["ETag"])


def checkpoint_key(run: str) -> str:
    """Where a run's checkpoint lies: readable by the job, unique by the whole URL."""
    digest = hashlib.sha256(run.encode()).hexdigest()[:32]
    return f"checkpoints/{job_name(run)[:200]}/{digest}.json.z"

"""Checkpoints of runs in the state bucket, committed with If-Match, and their traces."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from tocsin.aws.clients import error_code
from tocsin.aws.settings import CHECKPOINTS, TRACES
from tocsin.evaluation import (
    MOST_POINTS,
    Checkpoint,
    CheckpointConflict,
    StoredCheckpoint,
    Trace,
    decode_checkpoint,
    decode_trace,
    encode_checkpoint,
    encode_trace,
)
from tocsin.tensors import job_name
from tocsin.words import clean

_log = logging.getLogger("tocsin")

LOST = ("PreconditionFailed", "ConditionalRequestConflict", "412", "409")
MISSING = ("NoSuchKey", "404")

UNREADABLE = ".unreadable"
"""Stands at the end of the key of a checkpoint that was put aside."""


@dataclass(frozen=True)
class S3Checkpoints:
    """One object a run, below ``prefix``; its ETag is the version."""

    client: Any
    bucket: str
    prefix: str = CHECKPOINTS

    def load(self, run: str) -> StoredCheckpoint:
        try:
            answer = self.client.get_object(Bucket=self.bucket, Key=self._key(run))
        except ClientError as error:
            if error_code(error) in MISSING:
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
                Key=self._key(checkpoint.run),
                Body=encode_checkpoint(checkpoint),
                **condition,
            )
        except ClientError as error:
            if error_code(error) in (*LOST, *MISSING):
                raise CheckpointConflict(checkpoint.run) from error
            raise
        return str(answer["ETag"])

    def put_aside(self, run: str) -> None:
        key = self._key(run)
        source = {"Bucket": self.bucket, "Key": key}
        self.client.copy_object(Bucket=self.bucket, Key=f"{key}{UNREADABLE}", CopySource=source)

    def _key(self, run: str) -> str:
        return checkpoint_key(run, self.prefix)


@dataclass(frozen=True)
class S3Traces:
    """One object a run. The last writer wins: who commits the checkpoint writes it."""

    client: Any
    bucket: str

    def load(self, run: str) -> Trace:
        try:
            answer = self.client.get_object(Bucket=self.bucket, Key=trace_key(run))
        except ClientError as error:
            if error_code(error) in MISSING:
                return Trace(MOST_POINTS)
            raise
        try:
            return decode_trace(answer["Body"].read())
        except ValueError as error:
            _log.warning("the trace of %s begins again: %s", clean(run), error)
            return Trace(MOST_POINTS)

    def save(self, run: str, trace: Trace) -> None:
        self.client.put_object(Bucket=self.bucket, Key=trace_key(run), Body=encode_trace(trace))


def checkpoint_key(run: str, prefix: str = CHECKPOINTS) -> str:
    """Return the key of a run's checkpoint."""
    return f"{prefix}{run_part(run)}.json.z"


def trace_key(run: str) -> str:
    """Return the key of a run's trace."""
    return f"{TRACES}{run_part(run)}.trace.z"


def run_part(run: str) -> str:
    """Return a run in the key of an object: readable by the job, unique by the whole URL."""
    return f"{job_name(run)[:200]}/{hashlib.sha256(run.encode()).hexdigest()[:32]}"

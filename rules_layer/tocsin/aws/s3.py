"""What the state bucket keeps of runs: checkpoints, committed with If-Match, and traces."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError
from msgspec.structs import replace

from tocsin.alerts import Known
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
    last_changes,
)
from tocsin.events import BadEvent, StatusChange, checked, timestamp
from tocsin.tensors import job_name
from tocsin.words import clean

LOST = ("PreconditionFailed", "ConditionalRequestConflict", "412", "409")
MISSING = ("NoSuchKey", "404")

UNREADABLE = ".unreadable"
"""Stands at the end of the key of a checkpoint that was put aside."""

_log = logging.getLogger("tocsin")


@dataclass(frozen=True)
class S3Checkpoints:
    """One object a run; its ETag is the version."""

    client: Any
    bucket: str

    def load(self, run: str) -> StoredCheckpoint:
        try:
            answer = self.client.get_object(Bucket=self.bucket, Key=checkpoint_key(run))
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
                Key=checkpoint_key(checkpoint.run),
                Body=encode_checkpoint(checkpoint),
                **condition,
            )
        except ClientError as error:
            if error_code(error) in (*LOST, *MISSING):
                raise CheckpointConflict(checkpoint.run) from error
            raise
        return str(answer["ETag"])

    def put_aside(self, run: str) -> None:
        key = checkpoint_key(run)
        source = {"Bucket": self.bucket, "Key": key}
        self.client.copy_object(Bucket=self.bucket, Key=f"{key}{UNREADABLE}", CopySource=source)


@dataclass(frozen=True)
class S3Traces:
    """One object a run. The last writer wins: whoever commits checkpoints writes it."""

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


@dataclass(frozen=True)
class KnownRuns:
    """Reads the checkpoints that ``evaluate`` commits, as the events that it would publish."""

    checkpoints: S3Checkpoints
    now: Callable[[], float]

    def known(self, run: str) -> Known | None:
        stored = self.checkpoints.load(run)
        if stored.unreadable:
            why = clean(stored.unreadable, 500)
            _log.warning("checkpoint of %s cannot be read: %s", clean(run), why)
            return None
        if stored.version is None:
            return None
        checkpoint = stored.checkpoint
        return Known(
            tuple(self._alerts(checkpoint)), frozenset(checkpoint.rules), checkpoint.sequence
        )

    def _alerts(self, checkpoint: Checkpoint) -> Iterator[StatusChange]:
        for change in last_changes(checkpoint):
            try:
                yield checked(replace(change, evaluated_at=timestamp(self.now())))
            except BadEvent as error:
                what = f"{change.rule_configuration_name} of {checkpoint.run}: {error}"
                _log.warning("no alert: %s", clean(what, 500))


def checkpoint_key(run: str) -> str:
    """The key of a run's checkpoint."""
    return f"{CHECKPOINTS}{run_part(run)}.json.z"


def trace_key(run: str) -> str:
    """The key of a run's trace."""
    return f"{TRACES}{run_part(run)}.trace.z"


def run_part(run: str) -> str:
    """A run in the key of an object: readable by the job, unique by the whole URL."""
    return f"{job_name(run)[:200]}/{hashlib.sha256(run.encode()).hexdigest()[:32]}"

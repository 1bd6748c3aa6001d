"""Messages of the evaluate queue: four kinds, all of them hints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_plus

import msgspec

from tocsin.model import TERMINAL_JOB_STATUSES
from tocsin.profile import split_profiler_key
from tocsin.tensors import END_MARKER, split_key

CONTINUE = "continue"
"""Why a hint is sent for a run with a backlog."""
COLLECTIONS_WRITTEN = "collections"
"""Why one is sent for a run whose collections files are new."""


class BadMessage(ValueError):
    """A message is none of the four kinds; a retry does not help."""


@dataclass(frozen=True)
class Hint:
    """Something may be new in a run.

    keys: files that are said to have been written, relative to the run.
    tick: the present time, for the rules that read it.
    continues: the run has a backlog, and its last look made room for others.
    configures: collections files were written a moment ago.
    """

    run: str
    keys: tuple[str, ...] = ()
    tick: float | None = None
    continues: bool = False
    configures: bool = False


@dataclass(frozen=True)
class JobEnded:
    """SageMaker says that a training job has ended: its name and its ARN."""

    job: str
    arn: str


def parse_message(body: str | bytes) -> list[Hint | JobEnded]:
    """Return the hints in a message of S3, of EventBridge (object created, job state) or our own.

    Event files and our own STOP.json give no hint.
    """
    try:
        message = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise BadMessage(f"message is not JSON: {error}") from error
    if not isinstance(message, Mapping):
        raise BadMessage("message is not a JSON object")
    try:
        if message.get("tocsin") == "hint":
            run, tick, why = _run(message["run"]), _tick(message.get("tick")), message.get("why")
            configures = why == COLLECTIONS_WRITTEN
            return [Hint(run, tick=tick, continues=why == CONTINUE, configures=configures)]
        if message.get("Event") == "s3:TestEvent":
            return []
        if "Records" in message:
            objects = [
                (record["s3"]["bucket"], record["s3"]["object"]) for record in message["Records"]
            ]
            return _hints([(str(b["name"]), unquote_plus(str(o["key"]))) for b, o in objects])
        if message.get("detail-type") == "Object Created":
            detail = message["detail"]
            return _hints([(str(detail["bucket"]["name"]), str(detail["object"]["key"]))])
        if message.get("source") == "aws.sagemaker":
            return _job(message["detail"])
    except (KeyError, TypeError) as error:
        raise BadMessage(f"message lacks {error}") from error
    raise BadMessage(f"message of an unknown kind, with keys {', '.join(sorted(message))[:200]}")


def _run(url: Any) -> str:
    if not isinstance(url, str) or not url.startswith("s3://") or len(url) > 1100:
        raise BadMessage("hint names no run: expected run as s3://bucket/prefix")
    return url


def _tick(tick: Any) -> float | None:
    if tick is not None and (isinstance(tick, bool) or not isinstance(tick, int | float)):
        raise BadMessage("hint's tick is not a number of seconds")
    return tick


def _hints(objects: list[tuple[str, str]]) -> list[Hint | JobEnded]:
    """One hint per run, with the index files that are said to be new."""
    keys: dict[str, list[str]] = {}
    for bucket, key in objects:
        if (place := split_profiler_key(key) or split_key(key)) is not None:
            prefix, inside = place
            of_run = keys.setdefault(f"s3://{bucket}/{prefix}".rstrip("/"), [])
            of_run += [inside] * (inside != END_MARKER)
    return [Hint(run, tuple(inside)) for run, inside in keys.items()]


def _job(detail: Mapping[str, Any]) -> list[Hint | JobEnded]:
    ended = detail["TrainingJobStatus"] in TERMINAL_JOB_STATUSES
    if not ended:
        return []
    return [JobEnded(str(detail["TrainingJobName"]), str(detail["TrainingJobArn"]))]

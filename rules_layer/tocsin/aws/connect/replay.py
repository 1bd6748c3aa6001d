"""The services that ``replay`` is connected to: it reads runs, and writes results and nothing
else."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tocsin.aws.clients import AWS_ERRORS, Client, LazyClient
from tocsin.aws.replays import StoredReplay
from tocsin.aws.s3 import S3Checkpoints
from tocsin.aws.settings import ReplaySettings
from tocsin.evaluation import (
    Checkpoint,
    EvaluationReport,
    Hint,
    OutOfTime,
    StoredCheckpoint,
    document,
    memory_ports,
    reconcile,
)
from tocsin.profile import open_run
from tocsin.watch import Watch

MARGIN = 30.0  # seconds: enough to finish a step, commit it and write the result

Replay = Callable[[str, str, float], bool]
"""Evaluates a run again: the replay's name, the run, when the invocation ends. Whether the run has
been evaluated to its end; if not, the next call goes on from the checkpoint."""


@dataclass(frozen=True)
class _FromStart:
    """The checkpoints of a replay. A run begins with nothing but the rules of its SageMaker job,
    as they were found ``then``.
    """

    own: S3Checkpoints
    then: Checkpoint

    def load(self, run: str) -> StoredCheckpoint:
        stored = self.own.load(run)
        if stored.version is not None:
            return stored
        return replace(stored, checkpoint=Checkpoint(run, job_watch=self.then.job_watch))

    def save(self, checkpoint: Checkpoint, version: str | None) -> str:
        return self.own.save(checkpoint, version)

    def put_aside(self, run: str) -> None:
        self.own.put_aside(run)


def connect_replay(settings: ReplaySettings, default: Watch, client: Client = LazyClient) -> Replay:
    """``default`` is the configuration of runs that bring none."""
    return partial(_replay, client("s3"), settings.state_bucket, default)


def _replay(s3: Any, bucket: str, default: Watch, name: str, run: str, ends: float) -> bool:
    stored = StoredReplay(s3, bucket, name)
    then = S3Checkpoints(s3, bucket).load(run)
    checkpoints = _FromStart(S3Checkpoints(s3, bucket, stored.checkpoints), then.checkpoint)
    storage, report = open_run(run, client=s3), EvaluationReport()
    ports = replace(
        memory_ports(storage, time.time),
        storage=lambda url: open_run(url, client=s3),
        checkpoints=checkpoints,
        default=default,
        outages=(*AWS_ERRORS, OSError),
    )
    watch = stored.watch()
    try:
        progress = reconcile(Hint(run), ports, report, deadline=ends - MARGIN, watch=watch)
    except OutOfTime:
        if not report.steps:
            raise
        return False
    if progress.out_of_time:
        return False
    now = document(checkpoints.load(run).checkpoint)
    before = document(then.checkpoint)["rules"]
    stored.write_result(run, {**now, "before": before, "notes": report.log})
    return True

"""Starts the training of a scenario, and reads its progress."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from tocsin.tensors import STOP, WATCH, NotFound, Storage, index_key, machine_run, open_storage

from local.emulator import ACCOUNT
from local.environment import inherited
from local.paths import ROOT
from local.reaper import Reaper
from local.scenarios import Scenario
from local.stack import LocalAws

ROLE = f"arn:aws:iam::{ACCOUNT}:role/training"
SCRIPT = ROOT / "examples" / "digits_numpy.py"


class RunningTraining(Protocol):
    """A training that was started: its run, and the file of its model checkpoint."""

    @property
    def run(self) -> str: ...

    @property
    def checkpoint(self) -> Path: ...

    def ended(self) -> bool: ...

    def stopped_at(self) -> float | None:
        """The time of the request to stop (seconds since the epoch), or None."""


@dataclass(frozen=True)
class SageMakerTraining:
    """A training job of the local SageMaker."""

    aws: LocalAws
    name: str
    run: str
    checkpoint: Path

    def ended(self) -> bool:
        """Return whether it has ended; a job that is still to be created has not."""
        return any(job.finished for job in self.aws.jobs.all() if job.name == self.name)

    def stopped_at(self) -> float | None:
        return self.aws.jobs.get(self.name).at("Stopping")


@dataclass(frozen=True)
class PlainTraining:
    """A process outside SageMaker."""

    process: subprocess.Popen[bytes]
    run: str
    checkpoint: Path
    storage: Storage

    def ended(self) -> bool:
        return self.process.poll() is not None

    def stopped_at(self) -> float | None:
        found = [item.modified for item in self.storage.list(STOP)]
        return found[0] if found else None


@dataclass(frozen=True)
class Replay:
    """A finished run that is uploaded again."""

    run: str
    checkpoint: Path

    def ended(self) -> bool:
        return True

    def stopped_at(self) -> float | None:
        return None


def start(aws: LocalAws, reaper: Reaper, name: str, scenario: Scenario) -> RunningTraining:
    """Start the scenario's training under ``name``, or upload a replay."""
    bucket = aws.outputs["CaptureBucketName"]
    run = f"s3://{bucket}/jobs/{name}/debug-output"
    folder = reaper.folder("training")
    watch = folder / WATCH
    watch.write_text(json.dumps(scenario.watch))
    checkpoint = folder / "checkpoint.npz"
    command = [
        sys.executable,
        str(SCRIPT),
        *("--out", run, "--watch", str(watch), "--steps", str(scenario.planned_steps)),
        *("--checkpoint", str(checkpoint), *scenario.arguments),
    ]
    if scenario.where == "sagemaker":
        aws.client("sagemaker").create_training_job(
            **training_job(name, command, f"s3://{bucket}/jobs"),
            HyperParameters=dict(scenario.hyperparameters),
            CheckpointConfig={"S3Uri": f"s3://{bucket}/checkpoints", "LocalPath": str(folder)},
        )
        return SageMakerTraining(aws, name, run, checkpoint)
    storage = open_storage(run, client=aws.client("s3"))
    if scenario.where == "process":
        environment = inherited() | dict(aws.environment) | dict(scenario.environment)
        log = folder / "log"
        process = reaper.start(command, environment=environment, folder=folder, log=log)
        if scenario.machine:
            run = machine_run(run)
            storage = open_storage(run, client=aws.client("s3"))
        return PlainTraining(process, run, checkpoint, storage)
    storage.write(WATCH, watch.read_bytes())
    for path in _in_writing_order(ROOT / scenario.replayed):
        storage.write(str(path.relative_to(ROOT / scenario.replayed)), path.read_bytes())
    return Replay(run, checkpoint)


def training_job(name: str, command: list[str], output: str) -> dict[str, Any]:
    """A CreateTrainingJob request that runs ``command`` and writes tensors below ``output``."""
    return {
        "TrainingJobName": name,
        "AlgorithmSpecification": {
            "TrainingImage": "local",
            "TrainingInputMode": "File",
            "ContainerEntrypoint": command,
        },
        "RoleArn": ROLE,
        "OutputDataConfig": {"S3OutputPath": output},
        "ResourceConfig": {
            "InstanceType": "ml.m5.large",
            "InstanceCount": 1,
            "VolumeSizeInGB": 1,
        },
        "StoppingCondition": {"MaxRuntimeInSeconds": 600},
        "DebugHookConfig": {"S3OutputPath": output},
    }


def written_at(storage: Storage, step: int, worker: str) -> float | None:
    """The time of a step's index file. A listing has it more exactly than HEAD."""
    key = index_key(step, worker)
    try:
        return next((item.modified for item in storage.list(key) if item.key == key), None)
    except NotFound:
        return None


def steps_done(checkpoint: Path) -> int | None:
    """The number of finished steps, from the model checkpoint of the training."""
    if not checkpoint.exists():
        return None
    with np.load(checkpoint) as arrays:
        return int(arrays["step"]) + 1


def _in_writing_order(run: Path) -> list[Path]:
    """Per step the event file before its index file; collections first, the end marker last."""

    def when(path: Path) -> tuple[int, str, int]:
        kind = path.relative_to(run).parts[0]
        order = {"collections": 0, "events": 1, "index": 1}.get(kind, 2)
        return order, path.stem, int(kind == "index")

    return sorted((path for path in run.rglob("*") if path.is_file()), key=when)

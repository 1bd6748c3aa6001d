"""The status of each rule, written into a run of W&B, MLflow or TensorBoard by ``--mirror``."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tocsin.events import RunEvent, StatusChange
from tocsin.tensors import append_text
from tocsin.words import clean

Write = Callable[[StatusChange, str], None]
"""Writes a change, with its status in words."""

FORMS = "wandb[=ENTITY/PROJECT/RUN], mlflow[=RUN_ID] or tensorboard=FOLDER"
_NAME = re.compile(r"[^\w.\- ]")
_LONGEST = 1000


@dataclass(frozen=True)
class Mirror:
    """Writes each status change. A failure is said, and the run is judged on."""

    write: Write
    say: Callable[[str], object]

    def publish(self, events: Sequence[RunEvent]) -> None:
        for event in events:
            if not isinstance(event, StatusChange):
                continue
            try:
                self.write(event, in_words(event))
            except Exception as error:  # noqa: BLE001 - anything a client of a tool raises
                why = clean(f"{type(error).__name__}: {error}", 300)
                self.say(f"--mirror: {event.rule_configuration_name} is not written: {why}")


def in_words(change: StatusChange) -> str:
    """Return status, severity, step and details in one line."""
    severity = f" ({change.severity})" if change.firing and change.severity else ""
    at = "" if change.step is None else f" at step {change.step}"
    details = f": {change.status_details}" if change.status_details else ""
    return clean(f"{change.rule_evaluation_status}{severity}{at}{details}", _LONGEST)


def mirror_of(text: str) -> Write:
    """Return the tracker that ``--mirror`` names. Raises ValueError."""
    tool, _, where = text.partition("=")
    if tool == "mlflow":
        return _mlflow(where or os.environ.get("MLFLOW_RUN_ID", ""))
    if tool == "wandb":
        parts = (os.environ.get(f"WANDB_{name}", "") for name in ("ENTITY", "PROJECT", "RUN_ID"))
        return _wandb(where or "/".join(part for part in parts if part))
    if tool == "tensorboard" and where:
        return _tensorboard(Path(where))
    raise ValueError(f"--mirror {tool if tool.isalpha() else '…'}: write {FORMS}")


def _name(change: StatusChange) -> str:
    return _NAME.sub("_", clean(change.rule_configuration_name, 200))


def _mlflow(run: str) -> Write:
    if not run:
        raise ValueError("--mirror mlflow: name the run, mlflow=RUN_ID, or set MLFLOW_RUN_ID")
    try:
        from mlflow import MlflowClient
    except ImportError:
        raise ValueError("--mirror mlflow needs MLflow: pip install mlflow") from None
    client = MlflowClient()
    return lambda change, text: client.set_tag(run, f"tocsin.{_name(change)}", text)


def _wandb(path: str) -> Write:
    if not path:
        raise ValueError("--mirror wandb: name the run, wandb=ENTITY/PROJECT/RUN")
    try:
        import wandb
    except ImportError:
        raise ValueError("--mirror wandb needs Weights & Biases: pip install wandb") from None
    run: Any = wandb.Api().run(path)

    def write(change: StatusChange, text: str) -> None:
        tag = f"tocsin: {_name(change)}"[:64]
        others = [each for each in run.tags if each != tag]
        run.tags = [*others, tag] if change.firing else others
        run.summary[f"tocsin/{_name(change)}"] = text
        run.update()

    return write


def _tensorboard(folder: Path) -> Write:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"events.out.tfevents.{int(time.time())}.tocsin.{os.getpid()}"

    def write(change: StatusChange, text: str) -> None:
        shown = f"    {text}"  # an indented block: nothing in it is markup
        append_text(file, f"tocsin/{_name(change)}", change.step or 0, shown)

    return write

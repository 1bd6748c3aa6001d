"""Finds out by content which history a path is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tocsin.histories.csv_file import CsvFile, names_a_step
from tocsin.histories.json_lines import JsonLines, TrainerState
from tocsin.histories.mlflow import MlflowRun, mlflow_runs
from tocsin.histories.scalar import BadHistory, Reader
from tocsin.histories.tensorboard import TensorBoardRun, tensorboard_runs
from tocsin.tensors import COLLECTIONS, INDEX, is_event_file

_HEAD = 4096
_STATE = "trainer_state.json"
_TABLES = (".csv", ".tsv", ".txt")


def reader_of(path: Path) -> Reader | None:
    """The reader of the history at ``path``; None for a run of Tocsin, and for anything else.

    A folder is asked for runs of MLflow, then of TensorBoard, then for ``trainer_state.json``. A
    file is an event file by its first record, JSON by its first character, CSV by its name or its
    first line. Raises BadHistory for a folder of several histories, and OSError.
    """
    if path.is_file():
        of_file = _of_file(path)
        return None if of_file is None else of_file(path)
    if not path.is_dir() or any((path / mark).is_dir() for mark in (INDEX, COLLECTIONS)):
        return None
    kinds: tuple[tuple[list[Path], Callable[[Path], Reader]], ...] = (
        (mlflow_runs(path), MlflowRun),
        (tensorboard_runs(path), TensorBoardRun),
        ([path / _STATE] if (path / _STATE).is_file() else [], TrainerState),
    )
    for found, reader in kinds:
        if len(found) > 1:
            names = ", ".join(str(run) for run in found[:3]) + (", …" if len(found) > 3 else "")
            raise BadHistory(f"{path} holds {len(found)} runs: name one of them: {names}")
        if found:
            return reader(found[0])
    return None


def _of_file(path: Path) -> Callable[[Path], Reader] | None:
    with path.open("rb") as file:
        head = file.read(_HEAD)
    if is_event_file(head):
        return TensorBoardRun
    text = head.decode("utf-8-sig", "replace").lstrip()
    first, newline, _ = text.partition("\n")
    if not text.startswith("{"):
        return CsvFile if path.suffix.lower() in _TABLES or names_a_step(first) else None
    return TrainerState if newline and not _is_json(first) else JsonLines


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True

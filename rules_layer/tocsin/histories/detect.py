"""Finds out by content which history a path is."""

from __future__ import annotations

import json
from pathlib import Path

from tocsin.histories.csv_file import names_a_step, read_csv
from tocsin.histories.json_lines import read_json_lines, read_trainer_state
from tocsin.histories.mlflow import mlflow_runs, read_mlflow
from tocsin.histories.scalar import BadHistory, Reader
from tocsin.histories.tensorboard import read_tensorboard, tensorboard_runs
from tocsin.tensors import COLLECTIONS, INDEX, is_event_file

_HEAD = 4096
_STATE = "trainer_state.json"
_TABLES = (".csv", ".tsv", ".txt")


def reader_of(path: Path) -> tuple[Path, Reader] | None:
    """The history at ``path`` and its reader; None for a run of Tocsin, and for anything else.

    A folder is asked for runs of MLflow, then of TensorBoard, then for ``trainer_state.json``. A
    file is an event file by its first record, JSON by its first character, CSV by its name or its
    first line. Raises BadHistory for a folder of several histories, and OSError.
    """
    if path.is_file():
        reader = _of_file(path)
        return None if reader is None else (path, reader)
    if not path.is_dir() or any((path / mark).is_dir() for mark in (INDEX, COLLECTIONS)):
        return None
    kinds: tuple[tuple[list[Path], Reader], ...] = (
        (mlflow_runs(path), read_mlflow),
        (tensorboard_runs(path), read_tensorboard),
        ([path / _STATE] if (path / _STATE).is_file() else [], read_trainer_state),
    )
    for found, reader in kinds:
        if len(found) > 1:
            names = ", ".join(str(run) for run in found[:3]) + (", …" if len(found) > 3 else "")
            raise BadHistory(f"{path} holds {len(found)} runs: name one of them: {names}")
        if found:
            return found[0], reader
    return None


def _of_file(path: Path) -> Reader | None:
    with path.open("rb") as file:
        head = file.read(_HEAD)
    if is_event_file(head):
        return read_tensorboard
    text = head.decode("utf-8-sig", "replace").lstrip()
    first, newline, _ = text.partition("\n")
    if not text.startswith("{"):
        return read_csv if path.suffix.lower() in _TABLES or names_a_step(first) else None
    return read_trainer_state if newline and not _is_json(first) else read_json_lines


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True

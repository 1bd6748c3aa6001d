"""Finds out by content which history a path is."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tocsin.histories.delimited import Delimited, lacks_names, looks_delimited
from tocsin.histories.folders import catboost, dvclive, files_of, last_checkpoint
from tocsin.histories.json_file import JsonDocument, JsonLines
from tocsin.histories.lines import decoded
from tocsin.histories.mlflow import MlflowDatabase, MlflowRun, is_database, mlflow_runs
from tocsin.histories.printed import Printed, looks_printed
from tocsin.histories.scalar import BadHistory, Reader, Rows
from tocsin.histories.table import Table
from tocsin.histories.tensorboard import TensorBoardRun, tensorboard_runs
from tocsin.histories.wandb import WandbLog, is_wandb, wandb_logs
from tocsin.tensors import COLLECTIONS, INDEX, is_event_file
from tocsin.words import clean

_HEAD = 4096
_LOG_HEAD = 1 << 20  # bytes, within which a log has the first losses
_STATE = "trainer_state.json"
_TABLES = (".csv", ".tsv")
_MOST_NAMED = 3
_JSON = re.compile(r'\{\s*["}]|\[\s*(?:[\[{"\]]|-?\d[\d.eE+-]*\s*,)')
_UNREAD = {
    b"\x80": "a pickle, which can run code when it is read",
    b"PK\x03\x04": "an archive (a workbook, or weights of PyTorch)",
    b"\x89HDF": "an HDF5 file",
    b"\x93NUM": "an array of numpy",
    b"\x1f\x8b": "compressed",
    b"PAR1": "a Parquet file",
    b"MATLAB": "a MATLAB file",
}


def reader_of(path: Path, step: str | None = None) -> Reader | None:
    """Return the reader of the history at ``path``; None for a run of Tocsin, and for anything
    else.

    step: the name of the column that counts steps, or ``row``; None: the columns decide.

    Raises BadHistory for a file that is no history, for a folder of several histories, and OSError.
    """
    if path.is_file():
        return _of_file(path, step)
    if not path.is_dir() or any((path / mark).is_dir() for mark in (INDEX, COLLECTIONS)):
        return None
    return _of_folder(path, step)


def _of_folder(path: Path, step: str | None) -> Reader | None:
    """Asks a folder for what tools make of several files, then for files of one history."""

    def one_file(file: Path) -> Reader | None:
        return _of_file(file, step)

    if runs := mlflow_runs(path):
        return MlflowRun(_only(path, runs))
    if tables := catboost(path) or dvclive(path):
        return tables
    if logs := wandb_logs(path):
        return one_file(_only(path, logs))
    if runs := tensorboard_runs(path):
        return TensorBoardRun(_only(path, runs))
    if state := last_checkpoint(path, _STATE):
        return one_file(state)
    if files := files_of(path, one_file):
        return one_file(_only(path, files))
    return None


def _only(path: Path, found: list[Path]) -> Path:
    if len(found) > 1:
        more = ", …" if len(found) > _MOST_NAMED else ""
        names = ", ".join(str(run) for run in found[:_MOST_NAMED]) + more
        raise BadHistory(f"{path} holds {len(found)} runs: name one of them: {names}")
    return found[0]


def _of_file(path: Path, step: str | None) -> Reader | None:
    with path.open("rb") as file:
        head = file.read(_HEAD)
        if is_event_file(head):
            return TensorBoardRun(path)
        if is_database(head):
            return MlflowDatabase(path)
        head += file.read(_LOG_HEAD)
    if is_wandb(head):
        return Table(WandbLog(path), step)
    for mark, what in _UNREAD.items():
        if head.startswith(mark):
            raise BadHistory(f"{path} is {what}: save the history as CSV or JSON")
    rows = _rows_of(path, decoded(head))
    return Table(rows, step) if rows is not None else None


def _rows_of(path: Path, text: str) -> Rows | None:
    """Return what reads a text file. Raises BadHistory where it is none that is known."""
    begins = text.lstrip()
    if begins[:1] in ("{", "["):
        first, _, rest = begins.partition("\n")
        if begins[0] == "{" and _is_json(first) and (rest.strip() or path.suffix != ".json"):
            return JsonLines(path)
        if _JSON.match(begins):
            return JsonDocument(path)
    shown = [line for line in text.splitlines() if line.strip() and not line.startswith("#")][:2]
    first, second = [*shown, "", ""][:2]
    if path.suffix.lower() in _TABLES or (
        looks_delimited(first, second) and not looks_printed(text)
    ):
        return Delimited(path)
    if looks_printed(text):
        return Printed(path)
    if looks_delimited(first, second) or lacks_names(first, second):
        return Delimited(path)
    raise BadHistory(
        f"{path} is neither a run nor a history: it is not a table with a header line, JSON, or a "
        f"log with steps and losses; it begins with {clean(first, 60)!r}"
    )


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True

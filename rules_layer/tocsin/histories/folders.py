"""Folders that hold the tables of one training, and what is in them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from tocsin.histories.delimited import Delimited
from tocsin.histories.names import is_loss
from tocsin.histories.scalar import BadHistory, Note, Reader, Scalar
from tocsin.histories.table import Table

_METRICS = ("plots/metrics", "scalars", "plots/scalars")  # of DVCLive, in its versions
_ERRORS = re.compile(r"(learn|test)(?:_\d+)?_error\.tsv")
_MOST_FILES = 2000

# By preference: what tools write for each step or epoch.
_USUAL = (
    "results.csv", "metrics.csv", "progress.csv", "progress.txt", "vis_data/scalars.json",
    "scalars.json", "*.log.json", "trainer_log.jsonl", "trainer_state.json", "metrics.json",
    "metrics.jsonl", "training_log.csv", "train_log.csv", "log.csv", "history.csv", "history.json",
    "training_history.csv", "training_history.json", "log.jsonl", "log.txt", "train.log",
    "evals_result.json", "mlflow.db",
)  # fmt: skip
_READABLE = {".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".log", ".txt", ".db"}
_NUMBER = re.compile(r"\d+")


class Tables:
    """The tables of a folder, each with what stands before its names."""

    def __init__(self, path: Path, form: str, tables: dict[str, Table]) -> None:
        self.path = path
        self._form, self._tables = form, tables

    def read(self, note: Note, *, growing: bool = False) -> Iterator[Scalar]:
        for before, table in self._tables.items():
            for scalar in table.read(note, growing=growing):
                yield scalar._replace(name=f"{before}{scalar.name}")

    def describe(self) -> tuple[str, str, list[str]]:
        found = [table.describe() for table in self._tables.values()]
        left_out = [each for _, _, others in found for each in others]
        steps = Counter(step for _, step, _ in found if step)
        return self._form, max(steps, key=lambda step: steps[step], default=""), left_out


def dvclive(folder: Path) -> Tables | None:
    """Return the folder of DVCLive: a file of each metric below ``plots/metrics``."""
    for place in (folder, folder / "dvclive"):
        for below in _METRICS:
            files = sorted((place / below).rglob("*.tsv"))[:_MOST_FILES]
            if files:
                tables = {}
                for file in files:
                    parent = file.relative_to(place / below).parent.as_posix()
                    before = "" if parent == "." else f"{parent}/"
                    tables[f"{before}{file.stem}\0"] = Table(Delimited(file))
                return _Metrics(place, "DVCLive", tables)
    return None


class _Metrics(Tables):
    """Tables of one metric each: their columns are the step, perhaps a time, and the metric."""

    def read(self, note: Note, *, growing: bool = False) -> Iterator[Scalar]:
        for name, table in self._tables.items():
            for scalar in table.read(note, growing=growing):
                yield scalar._replace(name=name.rstrip("\0"))


def catboost(folder: Path) -> Tables | None:
    """Return the folder ``catboost_info``, or one that holds it."""
    for place in (folder, folder / "catboost_info"):
        files = sorted(file for file in place.glob("*_error.tsv") if _ERRORS.fullmatch(file.name))
        tables = {
            file.name.removesuffix("_error.tsv") + "/": Table(Delimited(file))
            for file in files
            if file.stat().st_size
        }
        if tables:
            return Tables(place, "CatBoost", tables)
    return None


def last_checkpoint(folder: Path, name: str) -> Path | None:
    """Return the file of this name in a folder, or in that of its checkpoint with the largest
    number."""
    if (folder / name).is_file():
        return folder / name
    found = [path for path in folder.glob(f"checkpoint-*/{name}") if path.is_file()]

    def step(path: Path) -> int:
        digits = _NUMBER.findall(path.parent.name)
        return int(digits[-1]) if digits else -1

    return max(found, key=step, default=None)


def files_of(folder: Path, reader_of: Callable[[Path], Reader | None]) -> list[Path]:
    """Return the files of a folder that are histories: the most usual one, else all; else of
    folders below it."""
    for place in (folder, folder / "vis_data"):
        for pattern in _USUAL:
            found = [path for path in sorted(place.glob(pattern)) if _is_history(path, reader_of)]
            if found:
                return found
    found = [
        path
        for path in sorted(folder.iterdir())
        if path.suffix.lower() in _READABLE and _is_history(path, reader_of)
    ]
    if found:
        return found
    below = [path for path in sorted(folder.iterdir()) if path.is_dir() and path.name[0] != "."]
    return [
        path
        for place in below[:_MOST_FILES]
        for pattern in _USUAL
        for path in sorted(place.glob(pattern))
        if _is_history(path, reader_of)
    ]


def _is_history(path: Path, reader_of: Callable[[Path], Reader | None]) -> bool:
    """Return whether a file has a loss, or anything else with a step that has several values."""
    if not path.is_file():
        return False
    try:
        reader = reader_of(path)
        if reader is None:
            return False
        steps = {scalar.step for scalar in reader.read(lambda _: None) if is_loss(scalar.name)}
    except (BadHistory, OSError):
        return False
    return len(steps) > 1

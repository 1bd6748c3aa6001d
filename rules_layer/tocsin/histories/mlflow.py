"""Runs of MLflow: in its file store, and in the database that it keeps by default."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tocsin.histories.cells import number, whole
from tocsin.histories.lines import Lines
from tocsin.histories.scalar import BadHistory, Note, Scalar, check_size

_METRICS, _META = "metrics", "meta.yaml"
_MOST_FILES = 2000
_MOST_VALUES = 1_000_000
_SQLITE = b"SQLite format 3\0"
_QUERY = """
    SELECT m.key, m.step, m.value, m.is_nan, m.timestamp, coalesce(nullif(r.name, ''), r.run_uuid)
    FROM metrics AS m JOIN runs AS r ON r.run_uuid = m.run_uuid
    WHERE r.lifecycle_stage = 'active'
    ORDER BY r.start_time, r.run_uuid, m.timestamp, m.step LIMIT ?
"""


def mlflow_runs(folder: Path) -> list[Path]:
    """Return the runs with metrics at ``folder`` or at most two folders below it."""
    found = [folder, *_children(folder)]
    found += [run for experiment in found[1:] for run in _children(experiment)]
    runs = [path for path in found if (path / _META).is_file() and (path / _METRICS).is_dir()]
    return [run for run in runs if any((run / _METRICS).iterdir())] or runs


def is_database(head: bytes) -> bool:
    """Return whether a file begins as a database of SQLite."""
    return head.startswith(_SQLITE)


class MlflowRun:
    """Lines ``timestamp value step``: milliseconds, a number, a whole number."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines: dict[Path, Lines] = {}

    def describe(self) -> tuple[str, str, list[str]]:
        return "MLflow", "step", []

    def read(self, note: Note, *, growing: bool = False) -> Iterator[Scalar]:
        scalars = self._scalars(note, growing)
        if growing:
            yield from scalars
        else:
            yield from sorted(scalars, key=lambda scalar: scalar.wall_time or 0.0)

    def _scalars(self, note: Note, growing: bool) -> Iterator[Scalar]:
        folder = self.path / _METRICS
        files = sorted(file for file in folder.rglob("*") if file.is_file())
        if len(files) > _MOST_FILES:
            raise BadHistory(f"{folder} has {len(files):,} files, more than {_MOST_FILES:,}")
        for file in files:
            name = file.relative_to(folder).as_posix()
            lines = self._lines.setdefault(file, Lines(file))
            for line in lines.read(growing=growing):
                words = line.split()
                if not words:
                    continue
                time, value = number(words[0]), number(words[1]) if len(words) > 1 else None
                step = whole(words[2]) if len(words) > 2 else 0
                if time is None or value is None or step is None:
                    at = lines.number
                    note(f"{file}, line {at}: skipped, because it is not: timestamp value step")
                    continue
                yield Scalar(name, step, value, time / 1000)


class MlflowDatabase:
    """``mlflow.db``: each run with metrics is a training of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read = 0  # rows

    def describe(self) -> tuple[str, str, list[str]]:
        return "MLflow's database", "step", []

    def read(self, note: Note, *, growing: bool = False) -> Iterator[Scalar]:
        import sqlite3

        check_size(self.path)
        try:
            database = sqlite3.connect(f"{self.path.resolve().as_uri()}?mode=ro", uri=True)
            try:
                rows = database.execute(_QUERY, (_MOST_VALUES,)).fetchall()
            finally:
                database.close()
        except sqlite3.Error as error:
            raise BadHistory(
                f"{self.path}: a database without the tables of MLflow ({error}); export the "
                "metrics as CSV"
            ) from None
        if not rows:
            raise BadHistory(f"{self.path}: it contains no MLflow run with metrics")
        new, self._read = rows[self._read :], len(rows)
        for name, step, value, is_nan, time, run in new:
            found = float("nan") if is_nan else number(value)
            if found is not None and isinstance(step, int) and isinstance(time, int):
                yield Scalar(str(name), step, found, time / 1000, str(run))


def _children(folder: Path) -> list[Path]:
    return sorted(
        path
        for path in folder.iterdir()
        if path.is_dir() and not path.is_symlink() and path.name[0] != "." and path.name != "models"
    )

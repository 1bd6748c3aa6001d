"""A run in MLflow's file store: ``mlruns/EXPERIMENT/RUN/metrics/NAME``, a line for each value."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tocsin.histories.lines import Lines
from tocsin.histories.scalar import BadHistory, Note, Scalar, number, whole

_METRICS, _META = "metrics", "meta.yaml"
_MOST_FILES = 2000


def mlflow_runs(folder: Path) -> list[Path]:
    """The runs with metrics at ``folder`` or at most two folders below it."""
    found = [folder, *_children(folder)]
    found += [run for experiment in found[1:] for run in _children(experiment)]
    return [path for path in found if (path / _META).is_file() and (path / _METRICS).is_dir()]


class MlflowRun:
    """Lines ``timestamp value step``: milliseconds, a number, a whole number."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines: dict[Path, Lines] = {}

    def read(self, note: Note, *, growing: bool = False) -> Iterator[Scalar]:
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


def _children(folder: Path) -> list[Path]:
    return sorted(
        path
        for path in folder.iterdir()
        if path.is_dir() and not path.is_symlink() and path.name[0] != "." and path.name != "models"
    )

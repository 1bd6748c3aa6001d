"""The runs on disk: each is made once for its set-up, and again when trainings change."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import msgspec

from benchmarks.detection.progress import work
from benchmarks.detection.training import train
from benchmarks.detection.training.outcome import Outcome, read_outcome, write_outcome
from benchmarks.detection.training.setup import Setup

CACHE = Path(__file__).resolve().parents[2] / ".cache" / "detection"
_STAMP = "setup.json"


@dataclass(frozen=True)
class Run:
    """A training and where its files lie: the run itself is the folder ``tensors``."""

    setup: Setup
    folder: Path

    @property
    def tensors(self) -> Path:
        return self.folder / "tensors"

    @property
    def made(self) -> bool:
        stamp = self.folder / _STAMP
        return stamp.is_file() and stamp.read_bytes() == fingerprint(self.setup)

    @property
    def outcome(self) -> Outcome:
        return read_outcome(self.folder)


def make(setups: Iterable[Setup], cache: Path = CACHE, jobs: int = 2) -> list[Run]:
    """The runs of these set-ups, those that are not there yet made by ``jobs`` processes."""
    runs = [Run(setup, cache / "runs" / setup.name) for setup in setups]
    for _ in work("training", make_one, [run for run in runs if not run.made], jobs):
        pass
    return runs


def make_one(run: Run) -> None:
    """Train, and keep the outcome beside the run; the stamp comes last."""
    shutil.rmtree(run.folder, ignore_errors=True)
    run.folder.mkdir(parents=True)
    write_outcome(run.folder, train(run.setup, run.tensors))
    (run.folder / _STAMP).write_bytes(fingerprint(run.setup))


def fingerprint(setup: Setup) -> bytes:
    """The set-up as JSON, with a digest of all code that trains."""
    return msgspec.json.encode({"setup": setup, "code": _code()}, order="sorted")


@cache
def _code() -> str:
    folder = Path(__file__).with_name("training")
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]

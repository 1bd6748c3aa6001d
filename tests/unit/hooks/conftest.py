"""Storages that are slow, that fail, and that remember what was written in which order; scripts
in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tocsin.tensors import IndexFile, LocalStorage, Storage, read_index

from tests.waiting import PATIENCE


class DoubleStorage(LocalStorage):
    """A folder whose writes wait for ``gate`` and fail for keys that contain a ``failing`` part."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.gate = threading.Event()
        self.gate.set()
        self.failing: tuple[str, ...] = ()
        self.attempts: list[str] = []

    def write(self, key: str, data: bytes) -> None:
        self.attempts.append(key)
        assert self.gate.wait(PATIENCE)
        if any(part in key for part in self.failing):
            raise OSError("storage is away")
        super().write(key, data)


_OF_THE_JOB = (
    "SMDEBUG_CONFIG_FILE_PATH",
    "TOCSIN",
    "TOCSIN_MACHINE",
    "TOCSIN_RUN",
    "TRAINING_JOB_NAME",
    "USE_SMDEBUG",
)


@pytest.fixture(autouse=True)
def _outside_sagemaker(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in _OF_THE_JOB:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[DoubleStorage]:
    double = DoubleStorage(tmp_path / "run")
    yield double
    double.gate.set()


@pytest.fixture
def index_files() -> Any:
    """All index files of a run, in the order of their steps."""

    def read(run: Storage | Path) -> list[IndexFile]:
        found = LocalStorage(run) if isinstance(run, Path) else run
        return [read_index(found, item) for item in found.list("index/")]

    return read


@pytest.fixture
def start(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a script, as a file with arguments, outside of SageMaker; ended with the test."""
    file = tmp_path_factory.mktemp("script") / "train.py"
    started: list[subprocess.Popen[str]] = []

    def begin(script: str, *arguments: object, **environment: str) -> subprocess.Popen[str]:
        file.write_text(script)
        inherited = {
            k: v for k, v in os.environ.items() if k not in ("TRAINING_JOB_NAME", "TOCSIN")
        }
        process = subprocess.Popen(
            [sys.executable, str(file), *map(str, arguments)],
            env={**inherited, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()

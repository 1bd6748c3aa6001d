"""Storages that are slow, that fail, and that remember what was written in which order."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tocsin.tensors import IndexFile, LocalStorage, Storage, read_index


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
        assert self.gate.wait(30)
        if any(part in key for part in self.failing):
            raise OSError("storage is away")
        super().write(key, data)


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

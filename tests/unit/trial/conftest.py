"""Runs to read: those that smdebug wrote, and small ones made here."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tocsin.model import Mode
from tocsin.tensors import (
    END_MARKER,
    Captured,
    Collection,
    RunMeta,
    collections_key,
    encode_collections,
    open_storage,
    write_step,
)
from tocsin.trial import Clock, Trial, create_trial

_FIXTURES = Path(__file__).parents[2] / "fixtures" / "smdebug"
_NAMES = sorted(path.parent.name for path in _FIXTURES.glob("*/expected.json"))


@dataclass(frozen=True)
class Sample:
    """A run of smdebug and what smdebug's own reader says of it, its mistakes included."""

    name: str
    path: Path
    expected: dict[str, Any]

    def trial(self, **options: Any) -> Trial:
        return create_trial(self.path, **options)


def _sample(name: str) -> Sample:
    folder = _FIXTURES / name
    path = next(p for p in (folder / "run", folder / "tensors") if p.is_dir())
    return Sample(name, path, json.loads((folder / "expected.json").read_text())["trial"])


@pytest.fixture(params=_NAMES)
def sample(request: pytest.FixtureRequest) -> Sample:
    """Each of the runs in turn."""
    return _sample(request.param)


@pytest.fixture
def named_sample() -> Callable[[str], Sample]:
    """One run by name."""
    return _sample


class Time:
    """A clock that moves only when somebody sleeps, and then does what is planned for then."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []
        self._plans: list[tuple[float, Callable[[], object]]] = []

    def at(self, moment: float, action: Callable[[], object]) -> None:
        self._plans.append((moment, action))

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        assert len(self.slept) < 100, "it waits for ever"
        self.slept.append(seconds)
        self.now += seconds
        for plan in sorted(self._plans, key=lambda plan: plan[0]):
            if plan[0] <= self.now:
                self._plans.remove(plan)
                plan[1]()

    def clock(self) -> Clock:
        return Clock(lambda: self.now, lambda: 2e9 + self.now, self.sleep)


@pytest.fixture
def time() -> Time:
    return Time()


class Writer:
    """Writes a run piece by piece, as smdebug does unless a ``meta`` is given."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.storage = open_storage(path)

    def collections(
        self, workers: int = 1, *names: str, collections: Iterable[Collection] = ()
    ) -> Writer:
        document = encode_collections(collections, workers)
        for worker in names or tuple(f"worker_{n}" for n in range(workers)):
            self.storage.write(collections_key(worker), document)
        return self

    def step(
        self,
        step: int,
        *workers: str,
        mode: Mode = Mode.TRAIN,
        mode_step: int | None = None,
        tensors: Mapping[str, Any] | None = None,
        captured: Iterable[Captured] = (),
        meta: RunMeta | None = None,
    ) -> Writer:
        values = {"loss": np.float32(step)} if tensors is None and not captured else tensors or {}
        for worker in workers or ("worker_0",):
            write_step(
                self.storage,
                step=step,
                worker=worker,
                mode=mode,
                mode_step=step if mode_step is None else mode_step,
                tensors=[*(Captured(name, value) for name, value in values.items()), *captured],
                meta=meta,
                extras=meta is not None,
            )
        return self

    def end(self) -> Writer:
        self.storage.write(END_MARKER, b"")
        return self

    def trial(self, **options: Any) -> Trial:
        return create_trial(self.path, **options)


@pytest.fixture
def run(tmp_path: Path) -> Writer:
    """An empty place for a run."""
    return Writer(tmp_path / "run")

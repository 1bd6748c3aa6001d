"""Runs to evaluate, and rules whose verdicts a test can foresee."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from tocsin.model import Mode, TensorSummary
from tocsin.tensors import Captured, Collection, LocalStorage, RunMeta, index_key, write_step
from tocsin.tensors import RunWriter as TensorsRunWriter
from tocsin.watch import Watch, to_watch

START = 1_700_000_000.0


@dataclass
class Job:
    """A training job that writes its run as our hook does, one second a step."""

    storage: LocalStorage
    run_id: str = "run-1"
    num_workers: int = 1

    def begin(self) -> None:
        writer = TensorsRunWriter(self.storage)
        writer.write_collections(
            [
                Collection("losses", tensor_names=("loss",)),
                Collection("gradients", include_regex=("^gradient/",)),
            ],
            self.num_workers,
        )

    def save(
        self,
        step: int,
        *,
        previous: int | None,
        loss: float = 1.0,
        gradient: float = 1e-2,
        worker: str = "worker_0",
        mode: Mode = Mode.TRAIN,
        chained: bool = True,
        resumed: int | None = None,
    ) -> str:
        write_step(
            self.storage,
            step=step,
            worker=worker,
            mode=mode,
            mode_step=step,
            tensors=[
                Captured("loss", loss),
                Captured(
                    "gradient/fc",
                    shape=(4,),
                    dtype="float32",
                    summary=TensorSummary(
                        size=4, nan=0, posinf=0, neginf=0, abs_mean=gradient, mean=0.0
                    ),
                ),
            ],
            meta=RunMeta(self.run_id, previous, resumed) if chained else None,
        )
        key = index_key(step, worker)
        self.touch(key, START + step)
        return key

    def steps(self, count: int, **values: float) -> None:
        for step in range(count):
            self.save(step, previous=step - 1 if step else None, **values)

    def end(self) -> None:
        TensorsRunWriter(self.storage).close()

    def remove(self, step: int) -> None:
        (Path(self.storage.url) / index_key(step, "worker_0")).unlink()

    def touch(self, key: str, modified: float) -> None:
        os.utime(Path(self.storage.url) / key, (modified, modified))


@pytest.fixture
def job(tmp_path: Path) -> Job:
    job = Job(LocalStorage(tmp_path / "jobs" / "j1"))
    job.begin()
    return job


@pytest.fixture
def watch() -> Callable[..., Watch]:
    """A watch file from rules in its short form."""

    def of(*rules: object, **top: object) -> Watch:
        return to_watch({"rules": list(rules), **top})

    return of

"""A job that was started several times into one run: all readers agree on what counts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tocsin.evaluation import Checkpoint, Hint, check, document, evaluate, memory_ports
from tocsin.evaluation import reconciliation as reconcile_module
from tocsin.model import Mode
from tocsin.tensors import (
    END_MARKER,
    Captured,
    Collection,
    LocalStorage,
    RunMeta,
    RunWriter,
    index_key,
    open_storage,
    write_step,
)
from tocsin.trial import create_trial
from tocsin.watch import Watch, to_watch

START = 1_700_000_000.0
NOW = START + 10_000


@dataclass(frozen=True)
class Start:
    """A start of the job that saves every ``every`` steps, up to and including ``last``."""

    run_id: str
    last: int
    resumed: int | None = None
    every: int = 10
    workers: int = 1

    @property
    def steps(self) -> list[int]:
        begin = 0 if self.resumed is None else self.resumed + 1
        return [step for step in range(begin, self.last + 1) if step % self.every == 0]


CASES = {
    "one start": ([Start("a", 50)], list(range(0, 51, 10))),
    "a shorter second start": ([Start("a", 100), Start("b", 50)], list(range(0, 51, 10))),
    "a longer second start": ([Start("a", 50), Start("b", 100)], list(range(0, 101, 10))),
    "one step of a second start": ([Start("a", 100), Start("b", 0)], [0]),
    "another interval": ([Start("a", 100), Start("b", 50, every=7)], list(range(0, 50, 7))),
    "resumed": ([Start("a", 50), Start("b", 80, resumed=50)], list(range(0, 81, 10))),
    "resumed further back": (
        [Start("a", 100), Start("b", 80, resumed=50)],
        list(range(0, 81, 10)),
    ),
    "two restarts, each shorter": (
        [Start("a", 100), Start("b", 60), Start("c", 30)],
        [0, 10, 20, 30],
    ),
    "from the beginning, after one that resumed": (
        [Start("a", 100), Start("b", 80, resumed=50), Start("c", 20)],
        [0, 10, 20],
    ),
    "from the beginning, up to where another one resumed": (
        [Start("a", 50), Start("b", 80, resumed=50), Start("c", 50)],
        list(range(0, 51, 10)),
    ),
    "two workers": (
        [Start("a", 100, workers=2), Start("b", 50, workers=2)],
        list(range(0, 51, 10)),
    ),
    "many steps": (
        [Start("a", 3000), Start("b", 2000, resumed=1500), Start("c", 700)],
        list(range(0, 701, 10)),
    ),
}


class Run:
    """Writes starts of a job, a second for each file."""

    def __init__(self, path: Path) -> None:
        self.storage = LocalStorage(path)
        self.now = START
        self.watch = to_watch({"rules": [{"rule": "ExplodingTensor", "for_steps": 1}]})
        self.ports = replace(memory_ports(self.storage, lambda: NOW), default=self.watch)

    def write(self, start: Start) -> Iterator[str]:
        """Key after key of its index files."""
        self.now += 100
        began = self.now
        losses = Collection("losses", tensor_names=("loss",))
        for number in range(start.workers):
            writer = RunWriter(self.storage, f"worker_{number}")
            writer.write_collections([losses], start.workers)
        for before, step in pairwise([None, *start.steps]):
            for worker in (f"worker_{number}" for number in range(start.workers)):
                self.now += 1
                meta = RunMeta(start.run_id, before, start.resumed, started=began)
                tensors = [Captured("loss", float(step))]
                write_step(
                    self.storage, step=step, worker=worker, mode=Mode.TRAIN, mode_step=step,
                    tensors=tensors, meta=meta,
                )  # fmt: skip
                key = index_key(step, worker)
                os.utime(Path(self.storage.url) / key, (self.now, self.now))
                yield key

    def end(self, start: Start) -> None:
        RunWriter(self.storage, run_id=start.run_id).close()
        self.now += 1
        os.utime(Path(self.storage.url) / END_MARKER, (self.now, self.now))

    def wake(self, *keys: str) -> Checkpoint:
        evaluate(Hint(self.storage.url, keys), self.ports, owner="a", ends=NOW + 100)
        return self.ports.checkpoints.load(self.storage.url).checkpoint

    def check(self) -> tuple[Checkpoint, list[int]]:
        steps: list[int] = []
        found, report = check(self.storage, self.watch, now=lambda: NOW, on_step=steps.append)
        assert report.log == []
        return found, steps


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path / "run")


@pytest.mark.parametrize("batch", [1, 4, 500])
@pytest.mark.parametrize(("starts", "expected"), CASES.values(), ids=CASES.keys())
def test_check_and_trial_agree(
    run: Run, monkeypatch: pytest.MonkeyPatch, starts: list[Start], expected: list[int], batch: int
) -> None:
    monkeypatch.setattr(reconcile_module, "BATCH_FILES", batch)
    for start in starts:
        for _ in run.write(start):
            pass
    run.end(starts[-1])
    checkpoint, steps = run.check()
    assert steps == expected
    assert checkpoint.run_id == starts[-1].run_id
    assert checkpoint.ended == "marker"
    assert create_trial(run.storage.url).steps() == expected


@pytest.mark.parametrize(
    ("starts", "expected"),
    [case for name, case in CASES.items() if name != "many steps"],
    ids=[name for name in CASES if name != "many steps"],
)
@pytest.mark.parametrize("every", [1, 5, 1000])
def test_lambda_comes_to_the_same(
    run: Run, starts: list[Start], expected: list[int], every: int
) -> None:
    """Woken for each file, for some, or once for each start of the job."""
    for start in starts:
        keys: list[str] = []
        for key in run.write(start):
            keys.append(key)
            if len(keys) >= every * start.workers:
                run.wake(*keys)
                keys = []
        run.wake(*keys)
    run.end(starts[-1])
    there, (here, _) = run.wake(), run.check()
    assert (there.run_id, there.frontier, there.ended) == (here.run_id, here.frontier, "marker")
    statuses = [
        [rule["RuleEvaluationStatus"] for rule in document(each)["rules"]] for each in (there, here)
    ]
    assert statuses[0] == statuses[1]
    if starts[-1].resumed is None:
        assert (there.steps, there.first_step) == (here.steps, here.first_step)
        assert (there.workers, there.late_files) == (here.workers, here.late_files)


def test_a_start_that_runs_is_not_ended_by_the_marker_before(run: Run) -> None:
    """Also within the minute for which a marker waits for other workers."""
    first, second = Start("a", 30), Start("b", 10)
    for key in run.write(first):
        run.wake(key)
    run.end(first)
    assert run.wake().ended == "marker"
    run.now -= 99
    for key in run.write(second):
        assert run.wake(key).ended is None
    assert run.check()[0].ended is None
    assert not create_trial(run.storage.url).loaded_all_steps
    run.end(second)
    assert run.wake().ended == run.check()[0].ended == "marker"


def test_what_an_earlier_start_left_is_read_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconcile_module, "BATCH_FILES", 10)
    for start in (Start("a", 1000), Start("b", 50)):
        for _ in run.write(start):
            pass
    read: list[str] = []
    real = LocalStorage.read

    def counted(self: LocalStorage, key: str, limit: int | None = None) -> bytes:
        read.append(key)
        return real(self, key, limit)

    monkeypatch.setattr(LocalStorage, "read", counted)
    run.check()
    indexes = [key for key in read if key.startswith("index/")]
    assert len(indexes) <= 101 + 5  # some are compared with


@pytest.mark.parametrize("resumed", [None, 14])
def test_two_hooks_one_after_the_other(
    tmp_path: Path, watch: Callable[..., Watch], resumed: int | None
) -> None:
    from tocsin_hooks import Hook

    def train(hook: Hook, steps: int, **tensors: float) -> None:
        for _ in range(steps):
            with hook.step():
                for name, value in tensors.items():
                    hook.save(name, value, collection="losses")

    storage: Any = open_storage(tmp_path / "run")
    first = Hook(storage, save_interval=1)
    train(first, 21, loss=float("nan"), old=1.0)
    first.close()
    second = Hook(storage, save_interval=1, resumed_from=resumed)
    train(second, 4, loss=1.0)
    second.close(finished=False)
    trial = create_trial(tmp_path / "run")
    before = 0 if resumed is None else 15
    assert trial.steps() == list(range(before + 4))
    assert not trial.loaded_all_steps
    steps: list[int] = []
    rules = watch({"rule": "ExplodingTensor", "for_steps": 1})
    checkpoint, _ = check(storage, rules, on_step=steps.append)
    assert steps == trial.steps()
    assert checkpoint.ended is None
    fired = checkpoint.rules["ExplodingTensor"].status.value == "IssuesFound"
    assert fired is (resumed is not None)
    assert ("old" in trial.tensor_names()) is (resumed is not None)

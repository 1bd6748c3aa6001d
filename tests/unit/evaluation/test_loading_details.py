"""What rules are shown beyond plain summaries: details, other runs, times; and read only once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from tocsin.evaluation import FoundFile, ReadyStep, check, document
from tocsin.evaluation.loading import LoadedStep, load
from tocsin.model import Bounds, Detail, Mode, Severity, TensorSummary, Verdict
from tocsin.rules import HEALTHY, Read, Reads, Rule, State, Step
from tocsin.tensors import Captured, LocalStorage, index_key, read_index, write_step
from tocsin.watch import Options, Selection, Watched, to_watch

ACTIVE = Detail(active=(0.0, None))
OTHER = Detail(active=(-1.0, 1.0))


@dataclass(frozen=True)
class Asking(Rule):
    """Asks for what a test wants."""

    asked: Mapping[str, Read] = field(default_factory=dict)
    runs: tuple[str, ...] = ()

    def reads(self) -> Reads:
        return Reads(self.asked, runs=self.runs)

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        return state, HEALTHY


@dataclass
class Counting(LocalStorage):
    """Counts the bytes of event files that are read."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.ranges: list[str] = []

    def read_ranges(self, key, ranges):  # type: ignore[no-untyped-def]
        self.ranges += [key] * len(ranges)
        return super().read_ranges(key, ranges)


def watched(rule: Asking) -> Watched:
    return Watched(
        "A", "A", rule, rule.reads(), Options(), Severity.INFO, (), dry_run=False, fingerprint=""
    )


def save(storage: LocalStorage, step: int, *tensors: Captured, worker: str = "worker_0") -> None:
    write_step(storage, step=step, worker=worker, mode=Mode.TRAIN, mode_step=step, tensors=tensors)


def ready(
    storage: LocalStorage, step: int, workers: Mapping[str, float] | None = None
) -> ReadyStep:
    workers = workers or {"worker_0": 7.0}
    return ReadyStep(
        step,
        tuple(
            FoundFile(read_index(storage, storage.head(index_key(step, worker))), at)
            for worker, at in workers.items()
        ),
        0,
    )


def loaded(storage: LocalStorage, rule: Asking, step: int = 0, **more: float) -> LoadedStep:
    selection = Selection((watched(rule),), None)
    return load(ready(storage, step, more or None), selection, storage, {}, LocalStorage, {})


def test_a_detail_is_computed_where_it_was_not_captured(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    value = np.float32([[0, 1, 2], [0, 0, 5]])
    save(storage, 0, Captured("relu", value, summary=TensorSummary(mean=99.0)))
    rule = Asking({"active": Read(detail=ACTIVE), "other": Read(detail=OTHER), "plain": Read()})
    tensors = loaded(storage, rule).steps["A"].tensors
    (active,), (other,), (plain,) = tensors["active"], tensors["other"], tensors["plain"]
    assert active.summary.bounds == Bounds(0.0, None, below=3)
    assert (active.summary.units, active.summary.inactive_units) == (3, 1)
    assert other.summary.bounds == Bounds(-1.0, 1.0, above=3)
    assert plain.summary.bounds is None
    assert {t.summary.mean for t in (active, other, plain)} == {99.0}
    assert active.value is None


def test_a_captured_detail_is_taken_as_it_is_and_no_other(tmp_path: Path) -> None:
    storage = Counting(tmp_path)
    summary = TensorSummary(
        bounds=Bounds(0.0, None, below=1), units=9, inactive_units=8, unit_active="AAAAAA=="
    )
    save(storage, 0, Captured("relu", shape=(9,), summary=summary))
    rule = Asking({"active": Read(detail=ACTIVE), "other": Read(detail=OTHER)})
    tensors = loaded(storage, rule).steps["A"].tensors
    assert tensors["active"][0].summary == summary
    assert tensors["other"][0].summary == TensorSummary()
    assert storage.ranges == []


def test_what_is_remembered_is_small(tmp_path: Path) -> None:
    """No detail in the checkpoint, and in memory only the values that are looked back at."""
    storage = LocalStorage(tmp_path)
    summary = TensorSummary(mean=1.0, units=1 << 16, unit_active="A" * (1 << 18))
    save(storage, 0, Captured("relu", np.ones(3), summary=summary), Captured("label", np.ones(3)))
    reads = {"relu": Read(regex=("relu",), back=1), "label": Read(regex=("label",), values=True)}
    found = loaded(storage, Asking(reads))
    ((reference,),) = found.references.values()
    assert reference.summary == TensorSummary(mean=1.0)
    assert found.values == {}
    reads["relu"] = Read(regex=("relu",), back=1, values=True)
    assert list(loaded(storage, Asking(reads)).values) == [("worker_0", "relu", 0)]


def test_when_each_workers_file_was_written(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    for worker in ("worker_0", "worker_1"):
        save(storage, 0, Captured("loss", 1.0), worker=worker)
    step = loaded(storage, Asking({}), worker_0=7.0, worker_1=9.5).steps["A"]
    assert (step.time, step.times) == (9.5, {"worker_0": 7.0, "worker_1": 9.5})


def test_the_same_step_of_another_run(tmp_path: Path) -> None:
    mine, theirs = LocalStorage(tmp_path / "j2"), LocalStorage(tmp_path / "j1")
    for step in (0, 1):
        save(mine, step, Captured("w", np.float32([1, 2])))
    save(theirs, 0, Captured("w", np.float32([3, 5])), Captured("v", [1.0]))
    rule = Asking({"w": Read(regex=("^w$",), fields=("mean",))}, runs=("j1", "j0"))
    (tensor,) = loaded(mine, rule).steps["A"].others["j1"]["w"]
    assert (tensor.name, tensor.summary.mean) == ("w", 4.0)
    assert loaded(mine, rule, 1).steps["A"].others == {}


def test_a_run_that_cannot_be_read_is_named_and_harms_nothing(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    save(storage, 0, Captured("w", [1.0]))

    def denied(url: str) -> LocalStorage:
        raise PermissionError("no access")

    rule = Asking({"w": Read()}, runs=("s3://elsewhere/j1",))
    selection = Selection((watched(rule),), None)
    found = load(ready(storage, 0), selection, storage, {}, denied, {})
    assert found.unreadable == ("the other run s3://elsewhere/j1: no access",)
    assert len(found.steps["A"].tensors["w"]) == 1


@pytest.mark.parametrize("back", [1, 2])
def test_an_earlier_value_at_hand_is_not_read_again(tmp_path: Path, back: int) -> None:
    storage = Counting(tmp_path)
    rule = Asking({"w": Read(values=True, back=back)})
    selection = Selection((watched(rule),), None)
    references, values = {}, {}
    for step in range(4):
        save(storage, step, Captured("w", np.float32([step])))
        found = load(ready(storage, step), selection, storage, references, LocalStorage, values)
        references, values = found.references, found.values
        (tensor,) = found.steps["A"].tensors["w"]
        past = [earlier.value.tolist() for earlier in tensor.previous]
        assert past == [[at] for at in range(step - 1, max(-1, step - 1 - back), -1)]
    assert len(storage.ranges) == 4


def jobs(root: Path) -> Iterator[LocalStorage]:
    for name in ("j1", "j2"):
        storage = LocalStorage(root / name)
        save(storage, 0, Captured("w", [1.0]))
        storage.write("training_job_end.ts", b"")
        yield storage


def test_a_runs_own_watch_file_cannot_name_other_runs(tmp_path: Path) -> None:
    rule = {"rule": "SimilarAcrossRuns", "parameters": {"other_trials": "j1", "tensor_regex": "w"}}
    *_, storage = jobs(tmp_path)
    (given,) = document(check(storage, to_watch({"rules": [rule]}))[0])["rules"]
    assert given["RuleEvaluationStatus"] == "NoIssuesFound"
    storage.write("watch.json", b'{"rules": [%s]}' % str(rule).replace("'", '"').encode())
    (own,) = document(check(storage)[0])["rules"]
    assert own["RuleEvaluationStatus"] == "Error"
    assert "by the deployment only" in own["StatusDetails"]

"""A training whose parameters, or whose optimizer, are sharded over two processes of gloo."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tocsin import create_trial
from tocsin.evaluation import check, document
from tocsin.tensors import LocalStorage, decode_index, index_key, joined_summary

from tests.waiting import PATIENCE

SCRIPT = Path(__file__).parent / "sharded.py"
ABOUT_WORKERS = {"StragglingWorker", "WorkerLosses", "WorkersDisagree"}
NUMBERS = ("min", "max", "mean", "abs_mean", "variance", "l1", "l2", "update_l1", "update_l2")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    done = subprocess.run(
        [sys.executable, SCRIPT, folder],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return folder


def verdicts(run: Path) -> dict[str, object]:
    """Of each rule its status and where it fired; none of rules that compare workers."""
    checkpoint, report = check(LocalStorage(run))
    assert not report.log
    return {
        rule["Rule"]: (rule["RuleEvaluationStatus"], rule["FiredAt"] and rule["FiredAt"]["step"])
        for rule in document(checkpoint)["rules"]
        if rule["Rule"] not in ABOUT_WORKERS
    }


@pytest.mark.parametrize("fault", ["healthy", "diverging"])
def test_the_verdict_is_that_of_one_process(runs: Path, fault: str) -> None:
    one = verdicts(runs / fault / "one")
    fired = {rule for rule, (status, _) in one.items() if status == "IssuesFound"}
    assert {"LearningRateTooLarge", "WeightUpdateRatio"} <= fired or (fault, fired) == (
        "healthy",
        set(),
    )
    for form in ("fsdp", "zero"):
        assert verdicts(runs / fault / form) == one


def test_parts_give_the_summary_of_the_whole(runs: Path) -> None:
    whole, parts = (create_trial(str(runs / "healthy" / form)) for form in ("one", "fsdp"))
    names = [*whole.tensor_names(collection="weights"), *whole.tensor_names(collection="gradients")]
    assert len(names) == 9
    for name in names:
        for step in (0, 1, 29):
            expected = whole.tensor(name).summary(step)
            tensor = parts.tensor(name)
            found = joined_summary([tensor.summary(step, worker=each) for each in parts.workers()])
            assert (found.size, found.zeros, found.nan) == (expected.size, expected.zeros, 0)
            for number in NUMBERS:
                known = getattr(expected, number)
                close = None if known is None else pytest.approx(known, rel=1e-3, abs=1e-6)
                assert getattr(found, number) == close, (name, step, number)


def test_a_worker_writes_its_part_and_where_it_belongs(runs: Path) -> None:
    shapes = []
    for number, worker in enumerate(("worker_0", "worker_1")):
        storage = LocalStorage(runs / "healthy" / "fsdp")
        index = decode_index(storage.read(index_key(0, worker)), 0, worker)
        weight = index.entry("Sequential_0.weight")
        assert weight is not None
        assert weight.shard is not None
        assert (weight.shard.shape, weight.shard.number) == ((7, 4), number)
        shapes.append(weight.shape)
    assert shapes == [(4, 4), (3, 4)]

"""Runs that are known to be good: who may name them, and how much is read of them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from tocsin.evaluation import EvaluationReport, Hint, check, memory_ports, reconcile
from tocsin.evaluation.baselines import is_of_owner, read_baseline
from tocsin.evaluation.checkpoint import Checkpoint
from tocsin.model import Mode
from tocsin.owners import owner_of
from tocsin.tensors import LocalStorage, Object, index_key
from tocsin.watch import Watch, Watched, encode_watch, resolve, to_watch

from tests.unit.evaluation.conftest import START, Job

RULE = "WorseThanBaseline"


def trained(job: Job, to: float, steps: int = 40) -> Job:
    """A loss that falls from 2 to a level."""
    for step in range(steps):
        loss = to + (2 - to) * math.exp(-step / 5)
        job.save(step, previous=step - 1 if step else None, loss=loss)
    job.end()
    return job


@pytest.fixture
def good(job: Job) -> Job:
    """A run beside that of ``job``."""
    return trained(Job(LocalStorage(Path(job.storage.url).with_name("main"))), 0.2)


def rule_of(watch: Watch) -> Watched:
    ((rule,), _) = resolve(watch)
    return rule


@pytest.mark.parametrize("to", [0.2, 1.5])
def test_a_run_is_judged_by_its_baseline(job: Job, good: Job, to: float) -> None:
    trained(job, to)
    checkpoint, _ = check(job.storage, Watch(rules=(), baseline=good.storage.url))
    status = checkpoint.rules[RULE].status.value
    assert status == ("IssuesFound" if to == 1.5 else "NoIssuesFound")


def test_rules_of_the_file_and_the_profile_are_judged_beside_it() -> None:
    added, _ = resolve(to_watch({"rules": ["AllZero"], "baseline": "main"}))
    assert [rule.name for rule in added] == ["AllZero", RULE]
    profile, _ = resolve(Watch(baseline=("main", "other")))
    assert {rule.name for rule in profile} > {RULE, "LossNotDecreasing"}
    own, _ = resolve(
        to_watch(
            {
                "rules": [{"rule": RULE, "name": "main", "parameters": {"share": 0.5}}],
                "baseline": "j0",
            }
        )
    )
    assert [(rule.name, rule.parameters["share"], rule.reads.baselines) for rule in own] == [
        ("main", 0.5, ("j0",))
    ]


@pytest.mark.parametrize(
    "wrong", [["main"] * 9, "m" * 901, "", 7], ids=["nine", "long", "empty", "a number"]
)
def test_what_a_baseline_cannot_be(wrong: object) -> None:
    with pytest.raises(ValueError, match="baseline"):
        to_watch({"baseline": wrong})


def test_a_baseline_survives_the_way_into_the_run(job: Job) -> None:
    written = json.loads(encode_watch(Watch(baseline="main")))
    assert to_watch(written).baseline == "main"


# Trust


@pytest.mark.parametrize(
    ("run", "name", "allowed"),
    [
        ("s3://b/runs/vision/j2/debug-output", "j1", True),
        ("s3://b/runs/vision/j2", "s3://b/runs/vision/deep/j1", True),
        ("s3://b/runs/vision/j2", "s3://b/runs/speech/j1", False),
        ("s3://b/runs/vision/j2", "s3://b/runs/vision/../speech/j1", True),  # a key as any other
        ("s3://b/runs/vision/j2", "s3://other/runs/vision/j1", False),
        ("s3://b/runs/vision/j2", "/etc/vision/j1", False),
        ("s3://b/runs", "s3://b/runs", False),  # the prefix itself has no owner
        ("s3://b/runs/j2", "s3://b/runs/j1", False),
        ("/runs/j2", "j1", True),
        ("/runs/j2", "/runs/j1", True),
        ("/runs/j2", "/secret/j1", False),
        ("/runs/j2", "/runs/../secret", False),
        ("/runs/j2", "/runs/..", False),
        ("/runs/j2", "..", False),
        ("/runs/j2", "s3://b/j1", False),
    ],
)
def test_what_the_watch_file_of_a_run_may_name(run: str, name: str, allowed: bool) -> None:
    assert is_of_owner(run, name, lambda url: owner_of(url, "runs/")) is allowed


def looked(job: Job, default: Watch) -> Checkpoint:
    ports = replace(memory_ports(job.storage, lambda: START + 1000), default=default)
    reconcile(Hint(job.storage.url), ports, EvaluationReport(), deadline=math.inf)
    return ports.checkpoints.load(job.storage.url).checkpoint


def test_a_run_cannot_read_what_it_may_not_name(job: Job, good: Job, tmp_path: Path) -> None:
    secret = trained(Job(LocalStorage(tmp_path / "elsewhere" / "secret")), 0.2)
    trained(job, 1.5)
    job.storage.write("watch.json", encode_watch(Watch(rules=(), baseline=secret.storage.url)))
    record = looked(job, Watch()).rules[RULE]
    assert record.status.value == "Error"
    assert "names a baseline of another owner" in record.details
    job.storage.write("watch.json", encode_watch(Watch(rules=(), baseline="main")))
    assert looked(job, Watch()).rules[RULE].status.value == "IssuesFound"


def test_a_deployment_may_name_any_run(job: Job, tmp_path: Path) -> None:
    good = trained(Job(LocalStorage(tmp_path / "elsewhere" / "main")), 0.2)
    trained(job, 1.5)
    checkpoint = looked(job, Watch(rules=(), baseline=good.storage.url))
    assert checkpoint.rules[RULE].status.value == "IssuesFound"


# What is read


@dataclass(frozen=True)
class Counted:
    """A storage that counts what is read and listed."""

    storage: LocalStorage
    size: int = 0
    reads: list[str] = field(default_factory=list)
    listed: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return self.storage.url

    def __getattr__(self, name: str) -> object:
        return getattr(self.storage, name)

    def list(self, prefix: str, after: str = "") -> Iterator[Object]:
        for found in self.storage.list(prefix, after):
            self.listed.append(found.key)
            yield replace(found, size=self.size or found.size)

    def read(self, key: str, limit: int | None = None) -> bytes:
        self.reads.append(key)
        return self.storage.read(key, limit)


def test_a_long_baseline_is_read_in_part(good: Job) -> None:
    for step in range(40, 1500):
        good.save(step, previous=step - 1, loss=0.2)
    storage = Counted(good.storage)
    rule = rule_of(Watch(rules=(), baseline="main"))
    read = read_baseline("main", storage, rule)  # type: ignore[arg-type]
    assert len(read.steps) == len([key for key in storage.reads if key.startswith("index/")]) <= 500
    assert [each.at for each in read.steps][:100] == [*range(100)]
    assert read.steps[-1].at == 1499
    assert read.steps[10].numbers["train/loss"] == pytest.approx(0.2 + 1.8 * math.exp(-2))


def test_a_large_baseline_is_read_up_to_a_limit(good: Job) -> None:
    storage = Counted(good.storage, size=10 << 20)
    read = read_baseline("main", storage, rule_of(Watch(rules=(), baseline="main")))  # type: ignore[arg-type]
    assert len(read.steps) == 3
    assert len([key for key in storage.reads if key.startswith("index/")]) == 3


def test_it_is_read_once(job: Job, good: Job) -> None:
    trained(job, 0.2)
    storage = Counted(good.storage)
    check(job.storage, Watch(rules=(), baseline=good.storage.url), others=[storage])  # type: ignore[list-item]
    assert storage.reads.count(index_key(3, "worker_0")) == 1


@pytest.mark.parametrize("damage", [b"", b"{", b"[1]"])
def test_what_cannot_be_read_of_it_is_left_out(job: Job, good: Job, damage: bytes) -> None:
    trained(job, 1.5)
    for step in range(0, 40, 2):
        good.storage.write(index_key(step, "worker_0"), damage)
    checkpoint, _ = check(job.storage, Watch(rules=(), baseline="main"))
    assert checkpoint.rules[RULE].status.value == "IssuesFound"


def test_a_place_without_a_run(job: Job) -> None:
    trained(job, 1.5)
    checkpoint, _ = check(job.storage, Watch(rules=(), baseline="nothing"))
    record = checkpoint.rules[RULE]
    assert record.status.value == "NotApplicable"
    assert record.details.startswith("baseline nothing: it has no step that can be read")


def test_steps_that_a_later_start_replaced_do_not_count(good: Job) -> None:
    again = Job(good.storage, run_id="run-2")
    for step in range(10):
        again.save(step, previous=step - 1 if step else None, loss=7.0)
    read = read_baseline("main", good.storage, rule_of(Watch(rules=(), baseline="main")))
    assert [each.at for each in read.steps] == [*range(10)]
    assert read.steps[0].mode is Mode.TRAIN

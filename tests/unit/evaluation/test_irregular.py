"""Files of a run that are not regular are refused, and the rest of the run is evaluated."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tocsin.evaluation import Checkpoint, EvaluationReport, check
from tocsin.tensors import END_MARKER, LocalStorage, collections_key, event_key, index_key
from tocsin.watch import Watch

from tests.irregular import IRREGULAR, in_time

from .conftest import START, Job

MakeWatch = Callable[..., Watch]


def replace_by(job: Job, key: str, kind: str) -> str:
    """Puts something of that kind in the place of a file; why the file is refused then."""
    path = Path(job.storage.url) / key
    path.unlink(missing_ok=True)
    IRREGULAR[kind](path)
    return f"{key} of run {job.storage.url} is {kind}, not a file: remove it"


def checked(
    job: Job, watch: Watch | None, now: float = START + 10
) -> tuple[Checkpoint, EvaluationReport]:
    return in_time(lambda: check(job.storage, watch, now=lambda: now))


@pytest.mark.parametrize("kind", IRREGULAR)
def test_an_index_file_is_counted(job: Job, watch: MakeWatch, kind: str) -> None:
    job.save(1, previous=0)  # one file to read: a thread would outlive a test that fails
    job.end()
    key = index_key(0, "worker_0")
    reason = replace_by(job, key, kind)
    checkpoint, report = checked(job, watch("VanishingGradient"))
    assert (checkpoint.steps, checkpoint.refused_files, report.refused) == (1, 1, 1)
    assert checkpoint.lost_steps == 0
    assert report.log == [f"{job.storage.url}: refused {key}: {reason}"]


@pytest.mark.parametrize("kind", IRREGULAR)
def test_a_collections_file(job: Job, watch: MakeWatch, kind: str) -> None:
    job.save(0, previous=None)
    job.end()
    reason = replace_by(job, collections_key("worker_0"), kind)
    checkpoint, report = checked(job, watch("VanishingGradient"))
    assert (checkpoint.steps, checkpoint.refused_files) == (1, 1)
    assert report.log == [f"{job.storage.url}: refused collections/: {reason}"]


@pytest.mark.parametrize("kind", IRREGULAR)
def test_an_end_marker_ends_nothing(job: Job, watch: MakeWatch, kind: str) -> None:
    job.save(0, previous=None)
    reason = replace_by(job, END_MARKER, kind)
    checkpoint, report = checked(job, watch("VanishingGradient"))
    assert (checkpoint.steps, checkpoint.refused_files, checkpoint.ended) == (1, 1, None)
    assert report.log == [f"{job.storage.url}: refused {END_MARKER}: {reason}"]


@pytest.mark.parametrize("kind", IRREGULAR)
def test_an_event_file_is_not_waited_for(job: Job, watch: MakeWatch, kind: str) -> None:
    job.save(0, previous=None)
    reason = replace_by(job, event_key(0, "worker_0"), kind)
    checkpoint, report = checked(job, watch("ExplodingTensor"), now=START)
    assert (checkpoint.steps, checkpoint.unreadable) == (1, 1)
    assert report.log == [f"{job.storage.url}: unreadable: step 0, worker_0, loss: {reason}"]


@pytest.mark.parametrize("kind", IRREGULAR)
def test_a_watch_file_of_the_run(job: Job, kind: str) -> None:
    job.save(0, previous=None)
    job.end()
    reason = replace_by(job, "watch.json", kind)
    checkpoint, report = checked(job, None)
    assert checkpoint.steps == 1
    assert report.log == [f"{job.storage.url}: refused watch.json: {reason}"]
    assert "VanishingGradient" in checkpoint.rules  # as without a watch file


@pytest.mark.parametrize("kind", IRREGULAR)
def test_a_run_to_compare_with(job: Job, watch: MakeWatch, kind: str) -> None:
    job.save(0, previous=None)
    job.end()
    other = Job(LocalStorage(Path(job.storage.url).with_name("j2")))
    other.save(0, previous=None)
    replace_by(other, index_key(0, "worker_0"), kind)
    rule = {"rule": "SimilarAcrossRuns", "parameters": {"other_trials": "j2"}}
    checkpoint, _ = checked(job, watch(rule))
    assert checkpoint.steps == 1
    assert checkpoint.rules["SimilarAcrossRuns"].status.value == "NotApplicable"


@pytest.mark.parametrize("target", ["/dev/zero", "/etc/hostname"])
@pytest.mark.parametrize(
    "key",
    [
        index_key(0, "worker_0"),
        collections_key("worker_0"),
        END_MARKER,
        "watch.json",
        event_key(0, "worker_0"),
    ],
)
def test_links_that_lead_out_are_not_followed(job: Job, key: str, target: str) -> None:
    for step in range(2):
        job.save(step, previous=step - 1 if step else None)
    job.end()
    path = Path(job.storage.url) / key
    path.unlink(missing_ok=True)
    path.symlink_to(target)
    checkpoint, report = checked(job, None)
    assert checkpoint.steps
    assert f"{key!r} points outside of the run {job.storage.url}" in "".join(report.log)


def test_files_behind_links_within_the_run_are_read(job: Job) -> None:
    job.save(0, previous=None)
    job.end()
    job.storage.write("watch.json", json.dumps({"rules": ["ExplodingTensor"]}).encode())
    for key in ("watch.json", index_key(0, "worker_0"), event_key(0, "worker_0")):
        path = Path(job.storage.url) / key
        moved = path.rename(path.with_suffix(".moved"))
        path.symlink_to(moved)
    checkpoint, report = checked(job, None)
    assert (checkpoint.steps, list(checkpoint.rules), report.log) == (1, ["ExplodingTensor"], [])

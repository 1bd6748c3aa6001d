from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tocsin.model import Mode, Role
from tocsin.tensors import END_MARKER, LocalStorage, read_collections, read_values
from tocsin.watch import Capture, CollectionConfig, RuleConfig, Watch
from tocsin_hooks import Hook, modes, uploader

from tests.waiting import PATIENCE


def train(hook: Hook, steps: int, mode: Mode = modes.TRAIN) -> None:
    for _ in range(steps):
        with hook.step(mode):
            hook.save("loss", 0.5, collection="losses")


def test_a_run_reads_back_as_it_was_saved(tmp_path: Path, index_files: Any) -> None:
    weight = np.arange(6, dtype=np.float32).reshape(2, 3)
    with Hook(tmp_path, save_interval=2) as hook:
        for step in range(3):
            with hook.step(modes.TRAIN):
                hook.save("loss", 1.0 / (step + 1), collection="losses")
                hook.save("w", weight, collection="weights")
                hook.save("g", weight, collection="gradients", raw=True)
                hook.save("act", weight, kind="relu", role=Role.ACTIVATION_OUTPUT)
                weight += 1
    indexes = index_files(tmp_path)
    assert [(i.step, i.mode, i.mode_step) for i in indexes] == [
        (0, Mode.TRAIN, 0),
        (2, Mode.TRAIN, 2),
    ]
    first, second = indexes
    values = read_values(LocalStorage(tmp_path), second)
    assert set(values) == {"loss", "g"}
    assert values["loss"] == pytest.approx([1 / 3])
    assert values["g"].tolist() == [[2, 3, 4], [5, 6, 7]]  # as it was before `weight += 1`
    w = second.entry("w")
    assert (w.start, w.shape, w.dtype, w.role) == (None, (2, 3), "float32", "weight")
    assert (w.summary.min, w.summary.max, w.summary.mean) == (2, 7, 4.5)
    assert (second.entry("act").role, second.entry("act").kind) == ("activation_output", "relu")
    assert second.entry("loss").summary.mean == pytest.approx(1 / 3)
    assert first.meta.run_id == second.meta.run_id
    assert (first.meta.prev_step, second.meta.prev_step) == (None, 0)
    collections = read_collections(LocalStorage(tmp_path))
    assert collections is not None
    assert collections.collections["weights"].tensor_names == ("w",)
    assert collections.collections["default"].tensor_names == ("act",)
    assert (tmp_path / END_MARKER).exists()


def test_steps_are_counted_by_mode_and_altogether(tmp_path: Path, index_files: Any) -> None:
    hook = Hook(tmp_path, save_interval={modes.TRAIN: 2, modes.EVAL: 1})
    for _ in range(2):
        train(hook, 3)
        train(hook, 1, modes.EVAL)
    assert hook.position == {"TRAIN": 6, "EVAL": 2, "PREDICT": 0, "GLOBAL": 8}
    hook.close()
    assert [(i.step, i.mode.name, i.mode_step) for i in index_files(tmp_path)] == [
        (0, "TRAIN", 0), (2, "TRAIN", 2), (3, "EVAL", 0), (5, "TRAIN", 4), (7, "EVAL", 1),
    ]  # fmt: skip


def test_steps_may_be_counted_without_modes(tmp_path: Path, index_files: Any) -> None:
    with Hook(tmp_path, save_interval=2) as hook:
        train(hook, 3, modes.GLOBAL)
    assert [(i.step, i.mode_step) for i in index_files(tmp_path)] == [(0, 0), (2, 2)]


@pytest.mark.parametrize(
    ("resumed_from", "step", "mode_step", "recorded"),
    [
        (None, 0, 0, None),
        (99, 100, 100, 99),
        ({"TRAIN": 80, "EVAL": 20, "GLOBAL": 100}, 100, 80, 99),
    ],
)
def test_a_resumed_job_counts_on(
    tmp_path: Path, index_files: Any, resumed_from: Any, step: int, mode_step: int, recorded: Any
) -> None:
    with Hook(tmp_path, save_interval=10, resumed_from=resumed_from) as hook:
        train(hook, 1)
    (index,) = index_files(tmp_path)
    assert (index.step, index.mode_step, index.meta.resumed_from) == (step, mode_step, recorded)
    assert index.meta.prev_step is None


def test_each_start_has_an_id_unless_it_is_given_one(tmp_path: Path, index_files: Any) -> None:
    for number, run_id in enumerate([None, None, "ours"]):
        with Hook(tmp_path / str(number), run_id=run_id) as hook:
            train(hook, 1)
    ids = [index_files(tmp_path / str(number))[0].meta.run_id for number in range(3)]
    assert len(set(ids)) == 3
    assert ids[2] == "ours"


def test_saving_says_whether_the_step_is_saved(tmp_path: Path) -> None:
    hook = Hook(tmp_path, save_interval=2)
    seen = [hook.saving]
    for _ in range(3):
        with hook.step(modes.TRAIN):
            seen.append(hook.saving)
    assert [*seen, hook.saving] == [False, True, False, True, False]
    hook.close()


def test_what_cannot_be_captured_is_left_out_and_told_once(
    tmp_path: Path, index_files: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with Hook(tmp_path) as hook, hook.step(modes.TRAIN):
        for value in (object(), {"a": 1}, [[1], [1, 2]]):
            hook.save("odd", value)
        hook.save(7, 1.0)  # type: ignore[arg-type]
        hook.save("", 1.0)
        hook.save("loss", 0.5, collection="losses")
    assert [entry.name for entry in index_files(tmp_path)[0].entries] == ["loss"]
    assert hook.stats.errors == 5
    assert len(caplog.records) == 1


def test_misuse_does_not_reach_the_training(tmp_path: Path, index_files: Any) -> None:
    hook = Hook(tmp_path, save_interval=1)
    hook.save("outside a step", 1.0)
    with hook.step("train"):  # type: ignore[arg-type]
        hook.save("in no mode", 1.0)
    with hook.step(modes.TRAIN):
        hook.save("outer", 1.0)
        with hook.step(modes.EVAL):
            hook.save("inner", 1.0)
        hook.save("outer again", 1.0)
    hook.close()
    hook.close()
    train(hook, 2)
    (index,) = index_files(tmp_path)
    assert [entry.name for entry in index.entries] == ["outer", "outer again", "outside a step"]


@pytest.mark.parametrize(
    "arguments",
    [
        {"save_interval": 0},
        {"worker": "a/b"},
        {"worker": ""},
        {"num_workers": 0},
        {"out": "ftp://host/run"},
        {"out": "s3://"},
        {"out": Path("s3://bucket/run")},
        {"resumed_from": "yesterday"},
    ],
)
def test_a_hook_that_cannot_work_says_so_and_lets_the_training_run(
    tmp_path: Path, arguments: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with Hook(**{"out": tmp_path / "run", **arguments}) as hook:
        train(hook, 3)
        assert not hook.should_stop
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file"),
        ("{", "truncated"),
        ('{"capture": {"speed": 1}}', "speed"),
        ('{"capture": {"collections": {"mine": {"include_regex": "("}}}}', "[(]"),
        ('{"notify": {"repeat_interval": []}}', "repeat_interval"),
        ('{"rules": [{"rule": "Overfit", "parameters": {"patiense": 3}}]}', "patiense"),
    ],
)
def test_a_watch_file_with_an_error_is_raised_before_the_training(
    tmp_path: Path, content: str | None, message: str
) -> None:
    watch = tmp_path / "watch.json"
    if content is not None:
        watch.write_text(content)
    with pytest.raises((ValueError, OSError), match=message) as raised:
        Hook(tmp_path / "run", watch=watch)
    assert "watch.json" in str(raised.value)
    assert not (tmp_path / "run").exists()


def test_a_rule_that_only_the_deployment_may_know_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, index_files: Any
) -> None:
    watch = tmp_path / "watch.json"
    watch.write_text('{"rules": ["OurOwnRule"]}')
    with Hook(tmp_path / "run", watch=watch, save_interval=1) as hook:
        train(hook, 3)
    assert "OurOwnRule" in caplog.text
    assert len(index_files(tmp_path / "run")) == 3


def test_a_watch_file_with_an_error_is_not_read_where_capturing_is_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOCSIN", "0")
    Hook(tmp_path / "run", watch=tmp_path / "missing.yaml").close()


def test_it_can_be_switched_off_from_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOCSIN", "0")
    with Hook(tmp_path / "run") as hook:
        train(hook, 3)
    assert hook.position["TRAIN"] == 3
    assert not (tmp_path / "run").exists()


def test_an_exception_of_the_training_goes_through_and_leaves_no_marker(
    tmp_path: Path, index_files: Any
) -> None:
    def training() -> None:
        with Hook(tmp_path) as hook, hook.step(modes.TRAIN):
            hook.save("loss", 0.5, collection="losses")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        training()
    assert [index.step for index in index_files(tmp_path)] == [0]
    assert not (tmp_path / END_MARKER).exists()


@pytest.mark.parametrize(
    ("worker", "num_workers", "finished", "job", "marker"),
    [
        ("worker_0", 1, None, None, True),
        ("gpu7", 1, None, None, True),
        ("worker_0", 2, None, None, True),
        ("worker_1", 2, None, None, False),
        ("worker_1", 2, True, None, True),
        ("worker_0", 1, False, None, False),
        ("worker_0", 1, None, "job-1", False),
        ("worker_0", 1, True, "job-1", False),
    ],
)
def test_the_end_marker_is_written_when_the_training_is_complete(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    worker: str,
    num_workers: int,
    finished: bool | None,
    job: str | None,
    marker: bool,
) -> None:
    if job:
        monkeypatch.setenv("TRAINING_JOB_NAME", job)
    hook = Hook(tmp_path, worker=worker, num_workers=num_workers)
    train(hook, 1)
    hook.close(finished=finished)
    assert (tmp_path / END_MARKER).exists() is marker


def test_steps_are_dropped_while_storage_is_behind(
    storage: Any, index_files: Any, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.setattr(uploader, "_MOST_STEPS", 2)
    storage.gate.clear()
    hook = Hook(storage, save_interval=1)
    train(hook, 5)
    assert hook.stats.dropped == 3
    storage.gate.set()
    written = False
    deadline = time.monotonic() + PATIENCE
    while not written and time.monotonic() < deadline:
        with hook.step(modes.TRAIN):
            written = hook.saving
            hook.save("loss", 0.5, collection="losses")
    hook.close()
    indexes = index_files(storage)
    assert [(i.step, i.meta.prev_step) for i in indexes[:2]] == [(0, None), (1, 0)]
    assert indexes[2].step >= 5
    assert indexes[2].meta.prev_step == 1
    assert hook.stats.saved == 3
    assert len(caplog.records) == 1


def test_storage_that_fails_switches_the_hook_off(storage: Any, caplog: Any) -> None:
    storage.failing = ("collections/", "events/", "index/", END_MARKER)
    hook = Hook(storage, save_interval=1)
    train(hook, 3)
    hook.close(timeout=PATIENCE)
    assert hook.stats.lost == 3
    assert [record.levelname for record in caplog.records] == ["WARNING", "ERROR", "WARNING"]


def test_closing_from_two_threads_writes_one_end(storage: Any) -> None:
    storage.gate.clear()
    hook = Hook(storage)
    train(hook, 1)
    closers = [threading.Thread(target=hook.close) for _ in range(4)]
    for closer in closers:
        closer.start()
    storage.gate.set()
    for closer in closers:
        closer.join(PATIENCE)
    assert storage.attempts.count(END_MARKER) == 1


def test_the_watch_file_decides_what_is_captured(tmp_path: Path, index_files: Any) -> None:
    watch = Watch(
        capture=Capture(
            save_interval=3,
            collections={
                "weights": CollectionConfig(save_raw_tensor=True),
                "heads": CollectionConfig(include_regex="^head", save_raw_tensor=True),
                "biases": CollectionConfig(save_interval=2),
            },
        )
    )
    with Hook(tmp_path, watch=watch) as hook:
        for _ in range(4):
            with hook.step(modes.TRAIN):
                hook.save("w", np.ones(3), collection="weights")
                hook.save("w summary", np.ones(3), collection="weights", raw=False)
                hook.save("head/x", np.ones(3))
                hook.save("b", np.ones(3), collection="biases")
    saved = {
        i.step: {e.name: e.start is not None for e in i.entries} for i in index_files(tmp_path)
    }
    common = {"w": True, "w summary": False, "head/x": True}
    assert saved == {0: {**common, "b": False}, 2: {"b": False}, 3: common}
    assert json.loads((tmp_path / "watch.json").read_bytes())["capture"]["save_interval"] == 3
    collections = read_collections(LocalStorage(tmp_path))
    assert collections is not None
    assert collections.collections["heads"].contains("head/x")


def test_without_a_watch_configuration_there_is_no_watch_file(tmp_path: Path) -> None:
    with Hook(tmp_path) as hook:
        train(hook, 1)
    assert not (tmp_path / "watch.json").exists()


def test_rules_that_find_nothing_are_told_at_the_start(tmp_path: Path, caplog: Any) -> None:
    with Hook(tmp_path, watch=Watch(rules=(RuleConfig("VanishingGradient"),))) as hook:
        train(hook, 25)
    (record,) = caplog.records
    assert "VanishingGradient" in record.getMessage()


@pytest.mark.parametrize(("age", "expected"), [(-60.0, True), (3600.0, False)])
def test_a_stop_request_in_the_run_is_seen(tmp_path: Path, age: float, expected: bool) -> None:
    hook = Hook(tmp_path, poll_interval=0.001)
    assert not hook.should_stop
    request = {
        "requested_at": time.time() - age,
        "rule": "ExplodingTensor",
        "reason": "loss is NaN",
    }
    LocalStorage(tmp_path).write("STOP.json", json.dumps(request).encode())
    assert hook._session is not None
    looked = threading.Event()
    look = hook._session.stop_file.look
    hook._session._poller._looks = {"STOP.json": lambda: (look(), looked.set())}
    assert looked.wait(PATIENCE)
    assert hook.should_stop is expected
    train(hook, 1)
    hook.close()
    assert (tmp_path / END_MARKER).exists()


def test_the_clock_of_a_step_is_that_of_the_training(tmp_path: Path) -> None:
    hook = Hook(tmp_path, save_interval=1)
    began = time.perf_counter()
    train(hook, 2)
    assert 0 < hook.stats.seconds < time.perf_counter() - began
    hook.close()
    assert hook.stats.saved == 2


def test_a_run_in_s3_needs_nothing_but_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    import boto3
    from moto import mock_aws

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with mock_aws():
        client = boto3.client("s3")
        client.create_bucket(Bucket="captures")
        with Hook("s3://captures/jobs/j1", save_interval=1, poll_interval=0.01) as hook:
            train(hook, 2)
        keys = [item["Key"] for item in client.list_objects_v2(Bucket="captures")["Contents"]]
    assert keys == [
        "jobs/j1/collections/000000000/worker_0_collections.json",
        "jobs/j1/events/000000000000/000000000000_worker_0.tfevents",
        "jobs/j1/events/000000000001/000000000001_worker_0.tfevents",
        "jobs/j1/index/000000000/000000000000_worker_0.json",
        "jobs/j1/index/000000000/000000000001_worker_0.json",
        f"jobs/j1/{END_MARKER}",
    ]


def test_a_forked_child_writes_nothing(storage: Any, index_files: Any) -> None:
    hook = Hook(storage, save_interval=1)
    with hook.step(modes.TRAIN):
        hook.save("loss", 0.5, collection="losses")
        child = os.fork()
        if child == 0:
            status = 1
            try:
                hook.save("from the child", 1.0)
                before = list(storage.attempts)
                train(hook, 2)
                hook.close(timeout=1)
                clean = storage.attempts == before and not hook.saving and not hook.should_stop
                status = 0 if clean else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    hook.close()
    assert [key for key in storage.attempts if key.startswith("index/")] == [
        "index/000000000/000000000000_worker_0.json"
    ]
    assert (
        "from the child" not in storage.read("index/000000000/000000000000_worker_0.json").decode()
    )

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from tocsin.model import Mode
from tocsin.tensors import RunWriter, read_collections
from tocsin.watch import Capture, CollectionConfig, Watch, parse_watch
from tocsin_hooks import uploader
from tocsin_hooks.capture import capture
from tocsin_hooks.plan import CapturePlan, Saved
from tocsin_hooks.settings import settings
from tocsin_hooks.step import CapturedStep, Later
from tocsin_hooks.uploader import Uploader

from tests.waiting import PATIENCE

WATCH = Watch(capture=Capture(collections={"fc": CollectionConfig(include_regex="^fc")}))


def captured(number: int, name: str = "loss", collection: str = "losses") -> CapturedStep:
    step = CapturedStep(number, Mode.TRAIN, number)
    plan = CapturePlan(Saved(name, (collection,)))
    for each in capture(plan, 1.0):
        step.add(plan, each)
    return step


def upload_to(storage: Any, watch: Watch | None = None) -> Uploader:
    return Uploader(storage, RunWriter(storage, run_id="r"), settings(watch, 1), 2)


def test_files_appear_in_an_order_that_makes_sense_at_any_moment(storage: Any) -> None:
    upload = upload_to(storage, WATCH)
    upload.put(captured(0))
    upload.put(captured(1))
    assert upload.close(marker=True, timeout=PATIENCE)
    kinds = [key.split("/")[0] for key in storage.attempts]
    assert kinds == [
        "watch.json", "collections", "events", "index", "events", "index", "training_job_end.ts",
    ]  # fmt: skip
    assert parse_watch(storage.read("watch.json")).capture.save_interval == 1


def test_the_collections_file_is_written_anew_when_names_are_added(storage: Any) -> None:
    upload = upload_to(storage, WATCH)
    for number, name in enumerate(["loss", "loss", "other", "other"]):
        upload.put(captured(number, name))
    upload.close(marker=False, timeout=PATIENCE)
    assert sum("collections/" in key for key in storage.attempts) == 2
    found = read_collections(storage)
    assert found is not None
    assert found.num_workers == 2
    assert found.collections["losses"].tensor_names == ("loss", "other")
    assert found.collections["fc"].include_regex == ("^fc",)


def test_a_run_without_steps_still_says_what_it_is(storage: Any) -> None:
    upload_to(storage).close(marker=True, timeout=PATIENCE)
    assert read_collections(storage) is not None
    assert storage.attempts[-1] == "training_job_end.ts"


@pytest.mark.parametrize("failing", ["events/000000000001", "index/000000000/000000000001"])
def test_a_step_that_cannot_be_written_is_left_out_of_the_chain(
    storage: Any, index_files: Any, failing: str, caplog: pytest.LogCaptureFixture
) -> None:
    storage.failing = (failing,)
    upload = upload_to(storage)
    for number in range(4):
        upload.put(captured(number))
    assert upload.close(marker=True, timeout=PATIENCE)
    assert (upload.written, upload.lost, upload.broken) == (3, 1, False)
    chain = [(index.step, index.meta.prev_step) for index in index_files(storage)]
    assert chain == [(0, None), (2, 0), (3, 2)]
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_three_failures_in_a_row_end_the_capture(
    storage: Any, caplog: pytest.LogCaptureFixture
) -> None:
    storage.failing = ("events/",)
    upload = upload_to(storage)
    for number in range(10):
        upload.put(captured(number))
    assert not upload.close(marker=True, timeout=PATIENCE)
    assert (upload.written, upload.lost, upload.broken) == (0, 10, True)
    assert sum("events/" in key for key in storage.attempts) == 3
    assert [record.levelname for record in caplog.records] == ["WARNING", "ERROR"]
    assert "training_job_end.ts" not in storage.attempts


@pytest.mark.parametrize(("most_steps", "most_bytes"), [(2, 10**9), (10**9, 16)])
def test_it_is_full_when_storage_is_behind(
    storage: Any, monkeypatch: pytest.MonkeyPatch, most_steps: int, most_bytes: int
) -> None:
    monkeypatch.setattr(uploader, "_MOST_STEPS", most_steps)
    monkeypatch.setattr(uploader, "_MOST_BYTES", most_bytes)
    storage.gate.clear()
    upload = upload_to(storage)
    full = []
    for number in range(3):
        full.append(upload.full)
        upload.put(captured(number))  # eight bytes each
    assert full == [False, False, True]
    storage.gate.set()
    assert upload.close(marker=False, timeout=PATIENCE)
    assert not upload.full


def test_closing_gives_up_after_the_time_allowed(storage: Any) -> None:
    storage.gate.clear()
    upload = upload_to(storage)
    upload.put(captured(0))
    assert not upload.close(marker=True, timeout=0.05)
    storage.gate.set()


def test_putting_never_waits_for_storage(storage: Any, tmp_path: Path) -> None:
    storage.gate.clear()
    upload = upload_to(storage)
    done = threading.Event()

    def put() -> None:
        for number in range(100):
            upload.put(captured(number))
        done.set()

    threading.Thread(target=put, daemon=True).start()
    assert done.wait(PATIENCE)
    storage.gate.set()
    assert upload.close(marker=False, timeout=PATIENCE)
    assert upload.written == 100


def test_what_is_still_on_its_way_is_waited_for_in_the_background(
    storage: Any, index_files: Any
) -> None:
    arrived = threading.Event()
    plan = CapturePlan(Saved("late", ("losses",)))

    def finish() -> Any:
        assert arrived.wait(PATIENCE)
        return [(plan, each) for each in capture(plan, 2.0)]

    step = captured(0)
    step.later.append(Later(finish, 8))
    upload = upload_to(storage)
    upload.put(step)
    arrived.set()
    assert upload.close(marker=False, timeout=PATIENCE)
    (index,) = index_files(storage)
    assert [entry.name for entry in index.entries] == ["loss", "late"]


def test_what_never_arrives_costs_its_step_only(storage: Any, index_files: Any) -> None:
    def finish() -> Any:
        raise RuntimeError("the device is gone")

    upload = upload_to(storage)
    for number in range(3):
        step = captured(number)
        if number == 1:
            step.later.append(Later(finish, 8))
        upload.put(step)
    assert upload.close(marker=True, timeout=PATIENCE)
    assert [index.step for index in index_files(storage)] == [0, 2]
    assert upload.lost == 1


def test_collections_that_are_configured_anew_are_written(storage: Any) -> None:
    upload = upload_to(storage)
    upload.put(captured(0))
    upload.configure(settings(WATCH, 1))
    upload.put(captured(1))
    assert upload.close(marker=False, timeout=PATIENCE)
    found = read_collections(storage)
    assert found is not None
    assert found.collections["fc"].include_regex == ("^fc",)


def test_names_that_are_new_at_every_step_are_written_more_and_more_seldom(
    storage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploader, "_OFTEN", 3)
    monkeypatch.setattr(uploader, "_MOST_NAMES", 8)
    upload = upload_to(storage)
    for step in range(10):
        upload.put(captured(step, f"loss{step}"))
    assert upload.close(marker=False, timeout=PATIENCE)
    assert len([key for key in storage.attempts if key.startswith("collections/")]) == 4
    collections = read_collections(storage)
    assert collections is not None
    assert sorted(collections.collections["losses"].tensor_names) == [
        f"loss{step}" for step in range(8)
    ]

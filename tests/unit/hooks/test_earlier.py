"""A second start into a folder that holds a finished run."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from tocsin.tensors import END_MARKER, LocalStorage, NotFound, Object, RunWriter
from tocsin_hooks import Hook, earlier, modes


def train(out: Any, steps: int, *, finished: bool | None = None, **options: Any) -> Hook:
    hook = Hook(out, save_interval=1, **options)
    for _ in range(steps):
        with hook.step(modes.TRAIN):
            hook.save("loss", 1.0, collection="losses")
    hook.close(finished=finished)
    return hook


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    caplog.clear()
    return found


@pytest.mark.parametrize(
    ("before", "first", "second", "warned"),
    [
        pytest.param(7, {}, {}, "7 steps", id="finished"),
        pytest.param(1, {}, {}, "1 step,", id="one step"),
        pytest.param(7, {"finished": False}, {}, None, id="not finished"),
        pytest.param(7, {}, {"resumed_from": 6}, None, id="resumed"),
        pytest.param(7, {}, {"resumed_from": {"TRAIN": 0}}, "7 steps", id="resumed at nothing"),
        pytest.param(7, {"run_id": "a"}, {"run_id": "a"}, None, id="another process of the start"),
        pytest.param(7, {}, {"worker": "worker_1", "num_workers": 2}, None, id="another worker"),
        pytest.param(7, {}, {"num_workers": 2}, "7 steps", id="the first of two workers"),
    ],
)
def test_a_finished_run_is_warned_of(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    before: int,
    first: Any,
    second: Any,
    warned: str | None,
) -> None:
    train(tmp_path, before, **first)
    assert warnings(caplog) == []
    train(tmp_path, 3, **second)
    found = warnings(caplog)
    if warned is None:
        assert found == []
        return
    (line,) = found
    assert str(tmp_path) in line
    assert warned in line
    assert "choose another folder, or pass resumed_from=" in line


def test_it_is_warned_before_anything_is_written(
    storage: Any, caplog: pytest.LogCaptureFixture
) -> None:
    train(storage, 3)
    storage.attempts.clear()
    caplog.clear()
    hook = Hook(storage, save_interval=1)
    assert (warnings(caplog), storage.attempts) == ([], [])  # nothing is saved yet
    storage.failing = ("",)
    for _ in range(2):
        with hook.step(modes.TRAIN):
            hook.save("loss", 1.0, collection="losses")
    hook.close(finished=False)
    assert "already contains a finished run of 3 steps" in warnings(caplog)[0]


def test_of_very_many_steps_some_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(earlier, "_MOST_FILES", 5)
    train(tmp_path, 7)
    train(tmp_path, 1)
    assert "at least 5 steps" in warnings(caplog)[0]


class Denying(LocalStorage):
    """What a role in S3 may see: of a missing file as little as of one that it may not read."""

    denied = ""

    def head(self, key: str) -> Object:
        if self.denied == "head":
            raise PermissionError("Forbidden")
        return super().head(key)

    def read(self, key: str, limit: int | None = None) -> bytes:
        if self.denied == "read":
            raise PermissionError("Forbidden")
        return super().read(key, limit)

    def list(self, prefix: str, after: str = "") -> Any:
        if self.denied == "list":
            raise PermissionError("AccessDenied")
        if self.denied == "network":
            raise TimeoutError("no answer")
        return super().list(prefix, after)


@pytest.mark.parametrize("denied", ["head", "read", "list", "network"])
def test_where_it_may_not_be_seen_nothing_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, denied: str
) -> None:
    storage = Denying(tmp_path)
    train(storage, 7)
    storage.denied = denied
    hook = train(storage, 3, poll_interval=1000.0)
    assert warnings(caplog) == []
    assert hook.stats.saved == 3


def test_a_marker_that_vanishes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(tmp_path, 2)
    storage = LocalStorage(tmp_path)
    gone = NotFound(storage.url, END_MARKER)
    monkeypatch.setattr(storage, "read", lambda *_, **__: (_ for _ in ()).throw(gone))
    train(storage, 1, poll_interval=1000.0)
    assert warnings(caplog) == []


def test_an_empty_marker_counts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As smdebug, SageMaker and the stack write it."""
    train(tmp_path, 2, finished=False)
    RunWriter(LocalStorage(tmp_path)).close()
    train(tmp_path, 1)
    assert "of 2 steps" in warnings(caplog)[0]

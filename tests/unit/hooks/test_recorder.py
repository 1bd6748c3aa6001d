"""Requests for a step trace where PyTorch is not there, and where they are not for this hook."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import msgspec
import pytest
from tocsin.model import Mode
from tocsin.tensors import (
    TRACE,
    TRACE_ANSWER,
    LocalStorage,
    NotFound,
    TraceAnswer,
    TraceRequest,
    decode_trace_answer,
)
from tocsin_hooks import Hook
from tocsin_hooks.recorder import StepRecorder

from tests.irregular import IRREGULAR, in_time
from tests.waiting import becomes


def ask(storage: LocalStorage, ago: float = 0.0, name: str = "a") -> None:
    when = datetime.now(timezone.utc) - timedelta(seconds=ago)
    storage.write(TRACE, msgspec.json.encode(TraceRequest(name, when)))


def answered(storage: LocalStorage) -> TraceAnswer | None:
    try:
        return decode_trace_answer(storage.read(TRACE_ANSWER))
    except NotFound:
        return None


def looked(storage: LocalStorage) -> StepRecorder:
    trace = StepRecorder(storage, "worker_0", time.time())
    trace.look()
    return trace


def test_without_pytorch_it_is_refused_and_the_loop_goes_on(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    with Hook(tmp_path, poll_interval=0.01) as hook:
        ask(storage)
        assert becomes(lambda: answered(storage) is not None)
        with hook.step():
            hook.save("loss", 1.0)
    answer = answered(storage)
    assert answer is not None
    assert (answer.id, answer.state) == ("a", "refused")
    assert "does not use PyTorch" in answer.detail
    assert hook.stats.errors == 0


@pytest.mark.parametrize(("ago", "expected"), [(0, True), (30, True), (3600, False), (-3600, True)])
def test_a_request_for_an_earlier_start_is_ignored(
    tmp_path: Path, ago: float, expected: bool
) -> None:
    storage = LocalStorage(tmp_path)
    ask(storage, ago)
    looked(storage)
    assert (answered(storage) is not None) is expected


def test_a_request_is_answered_once_and_each_third_look_reads(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    ask(storage)
    trace = looked(storage)
    (tmp_path / TRACE_ANSWER).unlink()
    for _ in range(3):
        trace.look()
    assert answered(storage) is None  # the same request
    ask(storage, name="b")
    trace.look()
    trace.look()
    assert answered(storage) is None
    trace.look()
    assert answered(storage) is not None


@pytest.mark.parametrize(
    "content",
    [b"{", b"{}", b'{"id": "a", "requested_at": "2036-01-01T00:00:00Z", "steps": 1000}'],
)
def test_a_bad_request_is_an_error_of_the_poller_alone(tmp_path: Path, content: bytes) -> None:
    storage = LocalStorage(tmp_path)
    storage.write(TRACE, content)
    trace = StepRecorder(storage, "worker_0", 0.0)
    with pytest.raises(ValueError):
        trace.look()
    trace.step_begins(Mode.TRAIN)
    trace.stop()
    trace.wait(0.0)


@pytest.mark.parametrize("kind", IRREGULAR)
def test_what_is_no_file_is_refused(tmp_path: Path, kind: str) -> None:
    IRREGULAR[kind](tmp_path / TRACE)
    with pytest.raises(ValueError):
        in_time(lambda: looked(LocalStorage(tmp_path)))

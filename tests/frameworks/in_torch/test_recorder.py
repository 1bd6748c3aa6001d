"""Step traces of real trainings, by PyTorch's profiler: made on request, and what they say."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from tocsin.model import Mode
from tocsin.report.step_trace import newest_trace
from tocsin.tensors import (
    TRACE,
    TRACE_ANSWER,
    LocalStorage,
    NotFound,
    TraceAnswer,
    TraceRequest,
    decode_trace_answer,
)
from tocsin_hooks import Hook, recorder
from tocsin_hooks.recorder import StepRecorder
from tocsin_hooks.torch import TorchHook
from torch.optim import Optimizer

from tests.viewer import opened
from tests.waiting import patiently

EXAMPLES = Path(__file__).parents[3] / "examples"


def ask(storage: LocalStorage, steps: int = 3) -> None:
    """As on a machine whose clock is an hour fast: the training may be slow to begin."""
    when = datetime.now(timezone.utc) + timedelta(hours=1)
    request = TraceRequest(uuid.uuid4().hex, when, steps)
    storage.write(TRACE, msgspec.json.encode(request))


def answer(storage: LocalStorage) -> TraceAnswer | None:
    try:
        return decode_trace_answer(storage.read(TRACE_ANSWER))
    except NotFound:
        return None


def asked(folder: Path, steps: int = 3) -> tuple[LocalStorage, StepRecorder]:
    """A trace that has taken a request up."""
    storage = LocalStorage(folder)
    ask(storage, steps)
    trace = StepRecorder(storage, "worker_0", 0.0)
    trace.look()
    said = answer(storage)
    assert said is not None
    assert said.state == "accepted"
    return storage, trace


def finished(storage: LocalStorage, trace: StepRecorder) -> TraceAnswer:
    trace.wait(60.0)
    said = answer(storage)
    assert said is not None
    assert not torch.autograd._profiler_enabled()
    return said


def work() -> None:
    weight = torch.ones(8, 8, requires_grad=True)
    (weight @ weight).sum().backward()


def events_in(storage: LocalStorage, said: TraceAnswer) -> list[dict[str, Any]]:
    assert said.key is not None
    content = storage.read(said.key)
    assert len(content) == said.bytes
    events: list[dict[str, Any]] = json.loads(gzip.decompress(content))["traceEvents"]
    return events


def test_a_training_is_recorded_while_it_runs(
    run: Path, net: torch.nn.Module, train: Callable[..., Optimizer]
) -> None:
    storage = LocalStorage(run)
    hook = TorchHook.attach(net, run, poll_interval=0.01)
    ask(storage)
    for _ in patiently():
        train(net)
        if (said := answer(storage)) is not None and said.state != "accepted":
            break
    hook.close()
    assert (said.state, said.detail) == ("written", "")
    events = events_in(storage, said)
    steps = [e for e in events if e["name"].startswith("ProfilerStep#") and e["ph"] == "X"]
    assert len(steps) == 3
    assert sum(event["name"] == "aten::addmm" for event in events) >= 3 * 2
    found = newest_trace(storage)
    assert found is not None
    assert (found.problem, found.steps, found.span) == (None, 3, None)
    assert {each.title.split()[0] for each in found.operators} == {"Operators", "Phases"}
    assert hook.hook.stats.errors == 0


def test_a_second_one_is_refused_for_ten_minutes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "_EVERY", 1)
    storage, trace = asked(tmp_path, 1)
    for _ in range(3):
        trace.step_begins(Mode.TRAIN)
        work()
    assert finished(storage, trace).state == "written"
    states = []
    for apart in (600.0, 0.0):
        monkeypatch.setattr(recorder, "_APART", apart)
        ask(storage)
        trace.look()
        states.append(finished(storage, trace).state)
    assert states == ["refused", "accepted"]


@pytest.mark.parametrize(
    ("modes", "state", "detail"),
    [
        ("EETTTTT", "written", ""),
        ("TTTE", "written", "an evaluation began"),
        ("TE", "refused", "an evaluation began"),
        ("TTT", "written", "the training ended"),
        ("T", "refused", "the training ended"),
    ],
)
def test_it_ends_with_the_training_steps(
    tmp_path: Path, modes: str, state: str, detail: str
) -> None:
    storage, trace = asked(tmp_path)
    for letter in modes:
        trace.step_begins(Mode.TRAIN if letter == "T" else Mode.EVAL)
        work()
    trace.stop()
    said = finished(storage, trace)
    assert (said.state, detail in said.detail) == (state, True)


def test_a_long_one_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage, trace = asked(tmp_path)
    for _ in range(2):
        trace.step_begins(Mode.TRAIN)
        work()
    monkeypatch.setattr(recorder, "_LONGEST", 0.0)
    trace.step_begins(Mode.TRAIN)
    assert "ended after" in finished(storage, trace).detail


@pytest.mark.parametrize("limit", ["_MOST_PLAIN", "MOST_TRACE_BYTES"])
def test_a_large_one_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(recorder, limit, 100)
    storage, trace = asked(tmp_path, 1)
    for _ in range(3):
        trace.step_begins(Mode.TRAIN)
        work()
    said = finished(storage, trace)
    assert (said.state, "ask for fewer steps" in said.detail) == ("refused", True)
    assert newest_trace(storage) is None


def test_the_scripts_own_profiler_is_left_alone(tmp_path: Path) -> None:
    storage, trace = asked(tmp_path, 1)
    with torch.profiler.profile() as own:
        trace.step_begins(Mode.TRAIN)
        work()
    trace.wait(60.0)
    assert own.key_averages()
    said = answer(storage)
    assert said is not None
    assert (said.state, "is using PyTorch's profiler" in said.detail) == ("refused", True)


def test_a_profiler_that_fails_does_not_reach_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("no tracer here")

    storage = LocalStorage(tmp_path)
    hook = Hook(tmp_path, poll_interval=0.01)
    monkeypatch.setattr(torch.profiler, "profile", broken)
    ask(storage)
    for _ in patiently():
        with hook.step():
            pass
        if (said := answer(storage)) is not None and said.state != "accepted":
            break
    hook.close()
    assert (said.state, said.detail) == ("refused", "no tracer here")
    assert not [each for each in threading.enumerate() if each.name == "tocsin-trace"]


def test_viewers_accept_a_trace_of_the_digits(run: Path) -> None:
    """The request is there before the training has begun, as one in a hurry makes it."""
    storage = LocalStorage(run)
    ask(storage)
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "digits_torch.py"), "--out", str(run), "--steps", "150",
         "--eval-interval", "150", "--poll-interval", "0.01"],
        capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = answer(storage)
    assert said is not None
    assert said.state == "written", said.detail
    events = events_in(storage, said)
    assert opened(events)
    assert any(event["name"] == "aten::convolution" for event in events)

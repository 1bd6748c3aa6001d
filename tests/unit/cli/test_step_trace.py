"""``tocsin trace``: asks a hook for a trace and waits for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
from tocsin.cli.errors import CommandError
from tocsin.cli.step_trace import trace_of
from tocsin.tensors import (
    END_MARKER,
    LocalStorage,
    TraceAnswer,
    decode_trace_request,
)

State = Literal["accepted", "written", "refused"]


def hook(storage: LocalStorage, *states: State, detail: str = "") -> Callable[[float], None]:
    """Answers with the next of ``states`` each time that the command waits."""
    left: Iterator[State] = iter(states)

    def answer(seconds: float) -> None:
        request = decode_trace_request(storage.read("TRACE.json"))
        assert request.steps == 4
        if (state := next(left, None)) is not None:
            said = TraceAnswer(request.id, state, "traces/a.pt.trace.json.gz", 2000, detail)
            storage.write("traces/answer.json", msgspec.json.encode(said))

    return answer


def test_it_waits_until_the_trace_is_there(tmp_path: Path) -> None:
    storage, said = LocalStorage(tmp_path), list[str]()
    storage.write("traces/answer.json", msgspec.json.encode(TraceAnswer("earlier", "written")))
    answers = hook(storage, "accepted", "accepted", "written", detail="ended early")
    made = trace_of(storage, 4, 60, said.append, answers)
    assert (made.key, made.bytes) == ("traces/a.pt.trace.json.gz", 2000)
    assert [line.partition(" ")[0] for line in said] == ["wrote", "the", "ended"]


def test_a_refusal_is_passed_on(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    answers = hook(storage, "accepted", "refused", detail="too large")
    with pytest.raises(CommandError, match="no trace was made: too large"):
        trace_of(storage, 4, 60, lambda line: None, answers)


@pytest.mark.parametrize(
    ("states", "message"), [((), "no hook answered in 3 s"), (("accepted",), "takes longer than")]
)
def test_it_does_not_wait_for_ever(tmp_path: Path, states: tuple[State], message: str) -> None:
    storage = LocalStorage(tmp_path)
    clock = iter(range(100))
    with pytest.raises(CommandError, match=message):
        trace_of(
            storage, 4, 3, lambda line: None, hook(storage, *states), lambda: float(next(clock))
        )


def test_a_run_that_has_ended_gets_no_request(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    storage.write(END_MARKER, b"")
    with pytest.raises(CommandError, match="has ended, so no training can record a trace"):
        trace_of(storage, 4, 60, lambda line: None)
    assert not (tmp_path / "TRACE.json").exists()


def test_a_run_that_ends_meanwhile(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    with pytest.raises(CommandError, match="has ended before the trace was made"):
        trace_of(storage, 4, 60, lambda line: None, lambda _: storage.write(END_MARKER, b""))


def test_a_resumed_run_has_not_ended(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    storage.write(END_MARKER, b"")
    os.utime(tmp_path / END_MARKER, (0, 0))
    storage.write("index/000000000/000000000001_worker_0.json", b"{}")
    made = trace_of(storage, 4, 60, lambda line: None, hook(storage, "written"))
    assert made.bytes == 2000


def test_an_answer_that_is_none(tmp_path: Path) -> None:
    LocalStorage(tmp_path).write("traces/answer.json", b"{}")
    with pytest.raises(CommandError, match="is not an answer"):
        trace_of(LocalStorage(tmp_path), 4, 3, lambda line: None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("profiler-output",), "is a machine run"),
        ((".", "--timeout", "soon"), "write a time such as"),
        ((".", "--steps", "21"), "equal to 20"),
        (("nowhere",), "no such folder"),
    ],
)
def test_bad_input(
    tocsin: Any, tmp_path: Path, arguments: tuple[str, ...], message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "profiler-output").mkdir()
    said = tocsin("trace", *arguments)
    assert said.code == 2
    assert message in said.err
    assert not (tmp_path / "TRACE.json").exists()

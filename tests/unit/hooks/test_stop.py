from __future__ import annotations

import os
import signal
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tocsin.tensors import LocalStorage, NotFound
from tocsin_hooks._stop import Sigterm, StopFile, StopRequest

STARTED = datetime(2026, 1, 1, 12, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("requested_at", "run_id", "expected"),
    [
        ('"2026-01-01T12:00:01Z"', "other", True),
        ('"2026-01-01T13:00:01+01:00"', "other", True),
        ('"2026-01-01T12:00:01"', "other", True),
        ('"2026-01-01T11:59:59Z"', "other", False),
        ('"2026-01-01T12:00:00Z"', "other", False),
        ('"2026-01-01T11:59:59Z"', "ours", True),
        (str(STARTED + 1), "other", True),
        (str(STARTED - 1), "other", False),
    ],
)
def test_a_request_is_obeyed_if_it_is_newer_or_names_this_start(
    requested_at: str, run_id: str, expected: bool
) -> None:
    text = f'{{"requested_at": {requested_at}, "run_id": "{run_id}", "rule": "R", "more": 1}}'
    request = msgspec.json.decode(text, type=StopRequest)
    assert request.addresses("ours", STARTED) is expected


class Looks(LocalStorage):
    """Answers one look after another with what the test says, then sets ``asked``."""

    def __init__(self, answers: list[bytes | Exception]) -> None:
        super().__init__(Path("/nowhere"))
        self._answers = answers
        self.asked = threading.Event()

    def read(self, key: str, limit: int | None = None) -> bytes:
        assert key == "STOP.json"
        answer = self._answers.pop(0) if self._answers else NotFound(self.url, key)
        if not self._answers:
            self.asked.set()
        if isinstance(answer, Exception):
            raise answer
        return answer


NEWER = b'{"requested_at": "2026-01-01T12:00:01Z", "rule": "ExplodingTensor"}'
OLDER = b'{"requested_at": "2026-01-01T11:00:01Z"}'


@pytest.mark.parametrize(
    ("answers", "requested", "messages"),
    [
        ([NotFound("run", "STOP.json")] * 2, False, 0),
        ([OLDER, OLDER], False, 0),
        ([b"{", b"{", b"{"], False, 1),
        ([b'{"rule": "no time"}', b"[]"], False, 2),
        ([OSError("network is away")] * 3, False, 1),
        ([OSError("network is away"), b"{", NEWER], True, 3),
    ],
)
def test_it_looks_until_there_is_a_request(
    answers: list[Any], requested: bool, messages: int, caplog: pytest.LogCaptureFixture
) -> None:
    storage = Looks([*answers, *([] if requested else [NotFound("run", "STOP.json")])])
    stop = StopFile(storage, "ours", STARTED, 0.001)
    assert storage.asked.wait(30)
    stop.close()
    stop._thread.join(30)
    assert stop.requested is requested
    assert len(caplog.records) == messages


def test_the_first_look_is_not_before_the_interval() -> None:
    storage = Looks([NEWER])
    stop = StopFile(storage, "ours", STARTED, 3600)
    stop.close()
    stop._thread.join(30)
    assert not storage.asked.is_set()


def test_sigterm_is_kept_and_a_handler_before_it_still_called() -> None:
    calls = []
    before = signal.signal(signal.SIGTERM, lambda *_: calls.append("before"))
    try:
        sigterm = Sigterm()
        assert not sigterm.received
        os.kill(os.getpid(), signal.SIGTERM)
        assert sigterm.received
        assert calls == ["before"]
        sigterm.close()
        os.kill(os.getpid(), signal.SIGTERM)
        assert calls == ["before", "before"]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_handler_that_came_later_is_left_in_place() -> None:
    before = signal.getsignal(signal.SIGTERM)
    try:
        sigterm = Sigterm()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        sigterm.close()
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)

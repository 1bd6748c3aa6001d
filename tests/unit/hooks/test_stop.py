from __future__ import annotations

import os
import signal
from datetime import datetime, timezone
from pathlib import Path

import msgspec
import pytest
from tocsin.tensors import LocalStorage, NotAFile
from tocsin_hooks.stop import Sigterm, StopFile, StopRequest

from tests.irregular import IRREGULAR, in_time

STARTED = datetime(2026, 1, 1, 12, tzinfo=timezone.utc).timestamp()


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


NEWER = b'{"requested_at": "2026-01-01T12:00:01Z", "rule": "ExplodingTensor"}'
OLDER = b'{"requested_at": "2026-01-01T11:00:01Z"}'


@pytest.mark.parametrize(
    ("content", "requested"), [(None, False), (OLDER, False), (NEWER, True), (b"{", None)]
)
def test_a_look(tmp_path: Path, content: bytes | None, requested: bool | None) -> None:
    storage = LocalStorage(tmp_path)
    stop = StopFile(storage, "ours", STARTED)
    if content is not None:
        storage.write("STOP.json", content)
    if requested is None:
        with pytest.raises(msgspec.DecodeError):
            stop.look()
    else:
        stop.look()
    assert stop.requested is bool(requested)


@pytest.mark.parametrize("kind", IRREGULAR)
def test_what_is_no_file_is_refused(tmp_path: Path, kind: str) -> None:
    IRREGULAR[kind](tmp_path / "STOP.json")
    stop = StopFile(LocalStorage(tmp_path), "ours", STARTED)
    with pytest.raises(NotAFile, match=f"STOP.json of run {tmp_path} is {kind}"):
        in_time(stop.look)
    assert not stop.requested


def test_a_request_is_remembered_though_its_file_goes(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    stop = StopFile(storage, "ours", STARTED)
    storage.write("STOP.json", NEWER)
    stop.look()
    (tmp_path / "STOP.json").unlink()
    stop.look()
    assert stop.requested


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

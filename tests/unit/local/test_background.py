from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from local import background
from local.background import down, up
from local.error import LocalError
from tests.waiting import PATIENCE, becomes

RUN = """
import sys, contextlib, pathlib
from local import background

class Fake:
    def describe(self):
        return {"endpoint": "http://127.0.0.1:1", "context": self.context}

@contextlib.contextmanager
def fake(context):
    aws = Fake()
    aws.context = context
    try:
        yield aws
    finally:
        print("stopped in order", flush=True)

background.local_aws = fake
background.run(pathlib.Path(sys.argv[1]), {"retainDays": 7})
"""
Start = Callable[[], "subprocess.Popen[str]"]


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    for request in (signal.SIGTERM, signal.SIGKILL):
        monkeypatch.setitem(background.DOWN_DEADLINES, request, PATIENCE)


@pytest.fixture
def start(tmp_path: Path) -> Start:
    def start() -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", RUN, str(tmp_path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert becomes(lambda: (tmp_path / "up.json").exists() or process.poll() is not None)
        return process

    return start


def test_what_is_up_is_found_and_taken_down(start: Start, tmp_path: Path) -> None:
    process = start()
    assert up(folder=tmp_path)["context"] == {"retainDays": 7}
    assert down(tmp_path) is True
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out, err) == (0, "stopped in order\n", "")
    assert not (tmp_path / "up.json").exists()
    assert down(tmp_path) is False


def test_it_is_up_only_once(start: Start, tmp_path: Path) -> None:
    first = start()
    second = subprocess.run(
        [sys.executable, "-c", RUN, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert second.returncode != 0
    assert "another process holds" in second.stderr
    assert up(folder=tmp_path)["context"] == {"retainDays": 7}
    assert down(tmp_path) is True
    first.communicate(timeout=PATIENCE)


def test_what_died_counts_as_down(start: Start, tmp_path: Path) -> None:
    process = start()
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=PATIENCE)
    assert (tmp_path / "up.json").exists()
    assert down(tmp_path) is False
    assert not (tmp_path / "up.json").exists()


def test_what_does_not_obey_is_killed(
    tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(background.DOWN_DEADLINES, signal.SIGTERM, 0.5)
    process = start()
    process.send_signal(signal.SIGSTOP)
    assert down(tmp_path) is True
    assert process.wait(PATIENCE) == -signal.SIGKILL
    process.communicate()


def test_why_it_does_not_come_up_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "root" / "local").mkdir(parents=True)
    (tmp_path / "root" / "local" / "__init__.py").touch()
    (tmp_path / "root" / "local" / "__main__.py").write_text("import sys; sys.exit('no room')")
    monkeypatch.setattr(background, "ROOT", tmp_path / "root")
    with pytest.raises(LocalError, match="does not start: no room"):
        up(folder=tmp_path)


def test_nothing_was_ever_up(tmp_path: Path) -> None:
    assert down(tmp_path / "never") is False

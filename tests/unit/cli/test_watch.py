"""``tocsin watch``: in a terminal, without one, and the list of ``tocsin status --watch``."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from tocsin.cli.blocks import chart
from tocsin.cli.run_view import RunWatch
from tocsin.cli.screen import screen
from tocsin.events import RUN_SUMMARY, STATUS_CHANGE
from tocsin.model import Mode
from tocsin.tensors import END_MARKER, STOP, Captured, Collection, LocalStorage, RunWriter

from tests.waiting import PATIENCE, becomes

RULE = ["--rule", "ExplodingTensor"]


class Training:
    """Writes a run step by step."""

    def __init__(self, path: Path) -> None:
        self.storage = LocalStorage(path)
        self.writer = RunWriter(self.storage, run_id="r1")
        self.writer.write_collections([Collection("losses", include_regex=("^loss$",))])
        self.step = 0

    def steps(self, *losses: float) -> None:
        for loss in losses:
            self.writer.write(
                self.step, Mode.TRAIN, self.step, [Captured("loss", np.float32(loss))]
            )
            self.step += 1

    def end(self) -> None:
        self.storage.write(END_MARKER, b"")


class Terminal:
    """A command in a pseudo-terminal of 100 columns and 30 lines."""

    def __init__(self, *arguments: object) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        self.text = ""
        environment = {**os.environ, "TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tocsin", *map(str, arguments)],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={k: v for k, v in environment.items() if k not in ("COLUMNS", "LINES", "NO_COLOR")},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )

    def shows(self, text: str) -> bool:
        """Whether it is shown by and by."""

        def is_shown() -> bool:
            ready, _, _ = select.select([self.master], [], [], 0.2)
            with contextlib.suppress(OSError):  # the other end is closed
                self.text += os.read(self.master, 1 << 16).decode(errors="replace") if ready else ""
            return text in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.text)

        return becomes(is_shown)

    def press(self, key: str) -> int:
        os.write(self.master, key.encode())
        return self.process.wait(PATIENCE)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.slave)
        os.close(self.master)


@pytest.fixture
def training(tmp_path: Path) -> Training:
    return Training(tmp_path / "run")


@pytest.fixture
def terminal(training: Training) -> Iterator[Terminal]:
    training.steps(4.0, 2.0, 1.0)
    shown = Terminal("watch", training.storage.url, *RULE)
    yield shown
    shown.close()


def test_a_run_that_grows_in_a_terminal(training: Training, terminal: Terminal) -> None:
    assert terminal.shows("step 2 · 3 judged")
    assert terminal.shows("● InProgress") or terminal.shows("NO ISSUES")
    assert terminal.shows("last 1")
    training.steps(0.5, float("nan"))
    assert terminal.shows("▲ CRITICAL")
    assert terminal.shows("▲ ExplodingTensor: ")
    assert terminal.press("q") == 0
    assert termios.tcgetattr(terminal.slave) == terminal.before
    assert not (Path(training.storage.url) / STOP).exists()


def test_ctrl_c_ends_it_and_leaves_the_terminal_as_it_was(terminal: Terminal) -> None:
    assert terminal.shows("step 2")
    assert terminal.press("\x03") == 0
    assert termios.tcgetattr(terminal.slave) == terminal.before
    assert "Traceback" not in terminal.text


def test_without_a_terminal_there_are_lines(tocsin, training: Training) -> None:
    training.steps(1.0, float("nan"))
    training.end()
    said = tocsin("watch", training.storage.url, *RULE)
    assert said.code == 1
    assert said.out.splitlines()[0].startswith("step 1 ▲ ExplodingTensor: ")
    assert said.out.splitlines()[-1].startswith("Training broke at step 1")
    assert not (Path(training.storage.url) / STOP).exists()


def test_it_ends_when_no_step_came_for_so_long(tocsin, training: Training) -> None:
    training.steps(1.0, float("nan"))
    said = tocsin("watch", training.storage.url, *RULE, "--until-idle", "100ms")
    assert said.code == 1
    assert said.out.startswith("step 1 ▲ ExplodingTensor: ")
    said = tocsin("watch", training.storage.url, *RULE, "--until-idle", "soon")
    assert said.code == 2
    assert "--until-idle soon is not a length of time" in said.err


def test_for_programs_each_event_is_a_line_of_json(tocsin, training: Training) -> None:
    training.steps(1.0, float("nan"))
    training.end()
    said = tocsin("watch", training.storage.url, *RULE, "--json")
    events = [json.loads(line) for line in said.out.splitlines()]
    assert said.code == 1
    assert [
        (each["detail-type"], each["detail"].get("RuleEvaluationStatus")) for each in events
    ] == [(STATUS_CHANGE, "IssuesFound"), (RUN_SUMMARY, "IssuesFound")]
    assert events[0]["detail"]["Step"] == 1


def test_a_rule_with_a_stop_stops_nothing(tocsin, training: Training, tmp_path: Path) -> None:
    (tmp_path / "watch.json").write_text(
        '{"rules": [{"rule": "ExplodingTensor", "actions": ["stop"]}]}'
    )
    training.steps(float("nan"))
    training.end()
    assert tocsin("watch", training.storage.url, "--watch", tmp_path / "watch.json").code == 1
    assert not (Path(training.storage.url) / STOP).exists()


def test_a_look_reads_what_is_new(training: Training, monkeypatch: pytest.MonkeyPatch) -> None:
    training.steps(*[1.0] * 20)
    run = RunWatch(training.storage)
    run.look()
    read: list[str] = []
    original = LocalStorage.read

    def counted(self: LocalStorage, key: str, limit: int | None = None) -> bytes:
        read.append(key)
        return original(self, key, limit)

    monkeypatch.setattr(LocalStorage, "read", counted)
    training.steps(0.5)
    view = run.look()
    files = {Path(key).name for key in read if key.startswith("index/")}
    assert files == {"000000000020_worker_0.json"}
    assert (view.document["steps"]["last"], view.losses[0].y[-1]) == (20, 0.5)


@pytest.mark.parametrize(
    ("values", "log", "lowest"),
    [
        ([1.0, 2.0, 3.0], False, "▁▄█"),
        ([1.0, None, 3.0], False, "▁×█"),
        ([1.0, 10.0, 100.0], True, "▁▄█"),
        ([5.0, 5.0], False, "▄▄"),
        ([1.0, 1.0, 1.0, 1e30], True, "▁▁▁█"),
        ([None], False, "×"),
        ([], False, None),
        ([-1e308, 1e308], False, "▁█"),
    ],
)
def test_a_chart_in_blocks(values, log, lowest) -> None:
    drawn = chart(values, width=40, height=1)
    assert (drawn.lines[0].plain if drawn.lines else None) == lowest
    assert drawn.log == log


def test_one_step_does_not_flatten_a_chart() -> None:
    drawn = chart([1.0, 2.0, 3.0, 1e30], width=40, height=4)
    assert drawn.high == 2500.0
    assert drawn.lines[0].plain == "   █"


@pytest.mark.parametrize(("width", "height"), [(100, 30), (40, 12), (20, 8)])
def test_the_screen_fits_whatever_a_run_is_called(tmp_path: Path, width: int, height: int) -> None:
    training = Training(tmp_path / "a[bold]\x1b[2Jb" / "debug-output")
    training.steps(1.0, float("nan"))
    console = Console(width=width, height=height, markup=False, emoji=False, highlight=False)
    with console.capture() as captured:
        console.print(screen(RunWatch(training.storage).look(), width, height, footer="q quits"))
    lines = captured.get().splitlines()
    assert max(map(len, lines)) <= width
    assert "\x1b[2J" not in captured.get()
    if height >= 12:
        assert len(lines) <= height + 4


def test_the_runs_of_a_folder_stay_on_the_screen(tmp_path: Path) -> None:
    first = Training(tmp_path / "one")
    first.steps(1.0)
    shown = Terminal("status", tmp_path, "--watch")
    try:
        assert shown.shows("one")
        second = Training(tmp_path / "two")
        second.steps(float("nan"))
        assert shown.shows("two")
        assert shown.shows("▲ IssuesFound")
        assert shown.press("q") == 0
    finally:
        shown.close()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["watch", "{run}", "--open"], "--open and --port require --web"),
        (["watch", "{folder}"], "is a folder of runs"),
        (["watch", "{folder}", "--web", "--mirror", "wandb=a/b/c"], "to use --notify or --mirror"),
        (["watch", "{run}", "--prometheus", "9464"], "write :9464 or 127.0.0.1:9464"),
        (["watch", "{run}", "--prometheus", ":9464", "--web"], "run a second tocsin watch"),
        (["watch", "{run}", "--mirror", "neptune"], "--mirror neptune: write wandb"),
        (["check", "{run}", "--on-stop", "true"], "--on-stop requires --follow"),
        (["check", "{run}", "--mirror", "wandb"], "require --follow"),
        (["status", "j1", "--watch"], "--watch shows a list of runs"),
    ],
)
def test_what_does_not_go_together(
    tocsin, training: Training, tmp_path: Path, arguments, complaint
) -> None:
    training.steps(1.0)
    named = {"run": training.storage.url, "folder": str(tmp_path)}
    assert complaint in tocsin(*(each.format(**named) for each in arguments)).complaint

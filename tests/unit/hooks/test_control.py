"""What changes while a training runs, for one worker and for several."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tocsin.tensors import LocalStorage
from tocsin.watch import BadWatch
from tocsin_hooks._control import PACE, Control, Pace

OWN = b'{"rules": []}'
NEWER = b'{"rules": ["AllZero"]}'


class Worker:
    """A worker of a run: its control, and the names of the rules of its selection."""

    def __init__(self, run: Path, *, first: bool = True, alone: bool = True) -> None:
        self.storage = LocalStorage(run)
        self.step, self.rate, self.ready = 0, 10.0, True
        self.control = Control(
            self.storage,
            OWN,
            first=first,
            alone=alone,
            interval=5.0,
            ready=lambda: self.ready,
            select=lambda watch: [rule.rule for rule in watch.rules],  # type: ignore[arg-type,return-value]  # a list shows as well what was selected
            progress=lambda: (self.step, self.rate),
        )

    def taken(self, step: int) -> tuple[int, int, Any] | None:
        change = self.control.taken(step)
        return None if change is None else (change.step, change.stretch, change.selection)


def test_a_newer_watch_file_holds_from_the_next_step_on(tmp_path: Path) -> None:
    worker = Worker(tmp_path)
    worker.storage.write("watch.json", OWN)
    worker.control.look()
    assert worker.taken(1) is None
    worker.storage.write("watch.json", NEWER)
    worker.control.look()
    assert worker.taken(2) == (0, 1, ["AllZero"])
    worker.control.look()
    assert worker.taken(3) is None


def test_what_lies_there_before_our_own_is_written_is_of_an_earlier_start(tmp_path: Path) -> None:
    worker = Worker(tmp_path)
    worker.storage.write("watch.json", NEWER)
    worker.ready = False
    worker.control.look()
    assert worker.taken(0) is None


def test_a_watch_file_that_is_wrong_is_told_and_changes_nothing(tmp_path: Path) -> None:
    worker = Worker(tmp_path)
    worker.storage.write("watch.json", b"{")
    with pytest.raises(BadWatch):
        worker.control.look()
    worker.control.look()  # told once
    assert worker.taken(1) is None


def test_a_stretch_of_one_that_is_alone_holds_at_once(tmp_path: Path) -> None:
    worker = Worker(tmp_path)
    worker.control.stretch(4)
    assert worker.taken(7) == (0, 4, None)
    assert worker.taken(8) is None


def test_changes_that_come_together_are_taken_together(tmp_path: Path) -> None:
    worker = Worker(tmp_path)
    worker.storage.write("watch.json", NEWER)
    worker.control.look()
    worker.control.stretch(2)
    assert worker.taken(1) == (0, 2, ["AllZero"])


def test_several_workers_change_at_the_same_step(tmp_path: Path) -> None:
    first = Worker(tmp_path, alone=False)
    other = Worker(tmp_path, first=False, alone=False)
    first.storage.write("watch.json", OWN)
    first.control.look()
    other.control.look()
    assert other.taken(0) in (None, (0, 1, None))
    first.step = 100
    first.control.stretch(8)
    assert first.taken(100) is None  # not before the others know
    first.control.look()
    other.control.look()
    expected = (100 + 20 * 10 + 1, 8, None)
    assert first.taken(300) is None
    assert other.taken(300) is None
    assert first.taken(301) == expected
    assert other.taken(305) == expected  # it saved no step between
    first.storage.write("watch.json", NEWER)
    first.step = 400
    first.control.look()
    other.control.look()
    assert first.taken(601) == other.taken(601) == (601, 8, ["AllZero"])


def test_others_do_not_decide(tmp_path: Path) -> None:
    other = Worker(tmp_path, first=False, alone=False)
    other.storage.write("watch.json", NEWER)
    other.control.look()
    assert other.taken(10) is None


def test_a_watch_file_that_is_newer_than_what_was_announced_waits(tmp_path: Path) -> None:
    other = Worker(tmp_path, first=False, alone=False)
    other.storage.write("watch.json", NEWER)
    other.storage.write(PACE, msgspec.json.encode(Pace(5, 1, "of another one")))
    other.control.look()
    assert other.taken(10) is None


def test_an_absurd_stretch_is_kept_within_bounds(tmp_path: Path) -> None:
    other = Worker(tmp_path, first=False, alone=False)
    other.storage.write(PACE, msgspec.json.encode(Pace(0, -5)))
    other.control.look()
    assert other.taken(1) == (0, 1, None)

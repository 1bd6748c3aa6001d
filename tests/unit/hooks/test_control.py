"""What changes while a training runs, for one worker and for several."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tocsin.model import Mode
from tocsin.tensors import LocalStorage, NotAFile
from tocsin.watch import BadWatch
from tocsin_hooks.control import PACE, Control, Pace

from tests.irregular import in_time

OWN = b'{"rules": []}'
NEWER = b'{"rules": ["AllZero"]}'


class Worker:
    """A worker of a run: its control, and the names of the rules of its selection."""

    def __init__(
        self,
        run: Path,
        *,
        first: bool = True,
        alone: bool = True,
        seconds: float | None = None,
        started: float = 0.0,
    ) -> None:
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
            seconds=lambda: seconds,
            started=started,
        )

    def taken(self, step: int) -> tuple[int, int, Any] | None:
        """The step from which on, the stretch of TRAIN, and what is selected."""
        change = self.control.taken(step)
        if change is None:
            return None
        assert change.stretch.get(Mode.EVAL, 1) == 1
        return change.step, change.stretch.get(Mode.TRAIN, 1), change.selection


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
    worker.control.stretch({Mode.TRAIN: 4})
    assert worker.taken(7) == (0, 4, None)
    assert worker.taken(8) is None


def test_changes_that_come_together_are_taken_together(tmp_path: Path) -> None:
    worker = Worker(tmp_path)
    worker.storage.write("watch.json", NEWER)
    worker.control.look()
    worker.control.stretch({Mode.TRAIN: 2})
    assert worker.taken(1) == (0, 2, ["AllZero"])


def test_several_workers_change_at_the_same_step(tmp_path: Path) -> None:
    first = Worker(tmp_path, alone=False)
    other = Worker(tmp_path, first=False, alone=False)
    first.storage.write("watch.json", OWN)
    first.control.look()
    other.control.look()
    assert other.taken(0) in (None, (0, 1, None))
    first.step = 100
    first.control.stretch({Mode.TRAIN: 8})
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
    other.storage.write(PACE, msgspec.json.encode(Pace(5, {}, "of another one")))
    other.control.look()
    assert other.taken(10) is None


@pytest.mark.parametrize(("at", "followed"), [(900.0, False), (950.0, True), (2000.0, True)])
def test_what_was_announced_for_an_earlier_start_is_none_of_ours(
    tmp_path: Path, at: float, followed: bool
) -> None:
    other = Worker(tmp_path, first=False, alone=False, started=1000.0)
    other.storage.write(PACE, msgspec.json.encode(Pace(0, {"TRAIN": 64}, at=at)))
    other.control.look()
    assert (other.taken(1) == (0, 64, None)) is followed


def test_an_absurd_stretch_is_kept_within_bounds(tmp_path: Path) -> None:
    other = Worker(tmp_path, first=False, alone=False)
    other.storage.write(PACE, msgspec.json.encode(Pace(0, {"TRAIN": -5})))
    other.control.look()
    assert other.taken(1) == (0, 1, None)


def test_a_newer_watch_file_is_not_lost_where_it_could_not_be_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Worker(tmp_path, alone=False)
    first.storage.write("watch.json", OWN)
    first.control.look()
    first.storage.write("watch.json", NEWER)
    with monkeypatch.context() as patched:
        patched.setattr(LocalStorage, "write", _fail)
        with pytest.raises(OSError, match="away"):
            first.control.look()
    first.control.look()
    assert first.taken(201) == (201, 1, ["AllZero"])


def _fail(self: LocalStorage, key: str, data: bytes) -> None:
    raise OSError("storage is away")


def test_one_change_is_announced_at_a_time(tmp_path: Path) -> None:
    first = Worker(tmp_path, alone=False)
    first.storage.write("watch.json", OWN)
    first.control.look()
    for stretch in (2, 4):
        first.control.stretch({Mode.TRAIN: stretch})
        first.control.look()
    assert msgspec.json.decode(first.storage.read(PACE), type=Pace).stretch == {"TRAIN": 2}
    assert first.taken(201) == (201, 2, None)
    first.control.look()
    assert msgspec.json.decode(first.storage.read(PACE), type=Pace).stretch == {"TRAIN": 4}


def test_the_first_worker_says_how_many_steps_its_seconds_are(tmp_path: Path) -> None:
    first = Worker(tmp_path, alone=False, seconds=30.0)
    other = Worker(tmp_path, first=False, alone=False, seconds=30.0)
    first.storage.write("watch.json", OWN)
    for rate, every in ((10.0, 300), (12.0, None), (20.0, 600)):
        first.rate = rate
        for worker in (first, first, other):
            worker.control.look()
        changes = [worker.control.taken(10_000) for worker in (first, other)]
        assert [change and change.every for change in changes] == [every, every]


def test_an_absurd_number_of_steps_is_kept_within_bounds(tmp_path: Path) -> None:
    other = Worker(tmp_path, first=False, alone=False)
    other.storage.write(PACE, msgspec.json.encode(Pace(0, every=0)))
    other.control.look()
    change = other.control.taken(1)
    assert change is not None
    assert change.every == 1


@pytest.mark.parametrize("first", [True, False])
def test_what_is_no_file_is_refused(tmp_path: Path, first: bool) -> None:
    os.mkfifo(tmp_path / "watch.json")
    os.mkfifo(tmp_path / PACE)
    worker = Worker(tmp_path, first=first, alone=first)
    with pytest.raises(NotAFile, match="is a named pipe, not a file"):
        in_time(worker.control.look)

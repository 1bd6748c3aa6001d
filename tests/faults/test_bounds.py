"""What comes before the first step of a look has limits, and a run that cannot be read pauses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tocsin.evaluation import looking
from tocsin.tensors import Object, collections_key

from tests.faults.room import START, Room, Training

VANISHING = {"rules": ["VanishingGradient"]}
HOUR = 3600.0


def _taking(room: Room, seconds: float, calls: tuple[str, ...] = ("read", "head")) -> None:
    """Each of these calls of S3 takes so long."""

    def tap(name: str, *_: Any) -> None:
        if name in calls:
            room.clock.now += seconds

    room.tap("storage", tap)


def _with_collections(job: Training, workers: int, num_workers: int) -> None:
    content = b'{"collections": {}, "_meta": {"num_workers": %d}}' % num_workers
    for number in range(workers):
        job.storage.write(collections_key(f"w{number:05d}"), content)


def test_very_many_collections_files_delay_no_step(tmp_path: Path) -> None:
    room = Room(tmp_path, VANISHING, now=START + 100)
    job = room.job()
    _with_collections(job, 5000, 1)
    job.steps(1)
    _taking(room, 0.015)
    room.look(job)
    assert room.known(job).steps == 1
    assert room.clock.now < START + 100 + 52


def test_a_job_of_4000_workers_is_watched(tmp_path: Path) -> None:
    workers = 4000
    room = Room(tmp_path, VANISHING, now=START + 100)
    job = room.job(workers=workers)
    _with_collections(job, workers, workers)
    for number in range(workers):
        job.write_index(0, None, worker=f"w{number:05d}")
    _taking(room, 0.02 / 16)  # they are read 16 at a time
    room.look(job)
    known = room.known(job)
    assert (known.steps, known.missing_workers, known.refused_files) == (1, 0, 0)


class _Counted:
    """A run's files; ``listed`` counts those that were listed."""

    listed = 0

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def list(self, prefix: str, after: str = "") -> Iterator[Object]:
        for found in self._inner.list(prefix, after):
            type(self).listed += 1
            yield found


def test_a_step_with_too_many_files_is_judged_by_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looking, "STEP_FILES", 20)
    monkeypatch.setattr(_Counted, "listed", 0)
    room = Room(tmp_path, VANISHING, now=START + 100)
    job = room.job()
    for number in range(500):
        job.write_index(0, None, worker=f"w{number:05d}")
    for step in range(1, 4):
        job.save(step, previous=step - 1 if step > 1 else None)
    room.with_storage(_Counted)
    room.look(job)
    known = room.known(job)
    assert (known.steps, known.last_step, known.refused_files) == (4, 3, 1)
    assert _Counted.listed < 100


def test_a_step_that_takes_too_long_to_read_is_given_up_unread(tmp_path: Path) -> None:
    room = Room(tmp_path, VANISHING, now=START + 100)
    job = room.job()
    for number in range(40):
        job.write_index(0, None, worker=f"w{number}")
    job.save(1, previous=0)
    _taking(room, 2.0)
    for _ in range(60):
        room.pass_time(60)
        room.look(job)
    assert room.known(job).last_step == 1
    assert room.telemetry["RunsNotWatched"] == 0


def test_a_run_whose_looks_never_finish_is_given_up_and_taken_up_again(tmp_path: Path) -> None:
    room = Room(tmp_path, VANISHING, now=START + 100)
    job = room.job()
    job.steps(1)
    whole, begin, looks = room.world, room.clock.now, [0]

    def tap(name: str, key: str, *_: Any) -> None:
        if name == "list" and key.startswith("collections"):
            looks[0] += 1
        room.clock.now += 30.0

    room.tap("storage", tap)
    while room.clock.now < begin + 23 * HOUR:
        room.look(job)
        room.pass_time(60)
    assert looks[0] <= 8
    assert "did not finish" in room.trouble(job)
    assert room.telemetry["RunsNotWatched"] == 1
    room.world = whole
    room.pass_time(3 * HOUR)
    assert room.known(job).steps == 1
    assert room.trouble(job) == ""


def _denied(name: str, *_: Any) -> None:
    if name in ("read", "head"):
        raise PermissionError("no access to the key of run s3://captures/jobs/j1")


def _unavailable(name: str, *_: Any) -> None:
    if name in ("read", "head"):
        raise OSError("S3 is not available")


@pytest.mark.parametrize(("fails", "most", "pause"), [(_denied, 25, HOUR), (_unavailable, 90, 300)])
def test_a_run_that_cannot_be_read_pauses_and_leaves_no_dead_letters(
    tmp_path: Path, fails: Callable[..., None], most: int, pause: float
) -> None:
    room = Room(tmp_path, VANISHING, now=START + 100)
    job = room.job()
    job.steps(1)
    whole, looks = room.world, [0]

    def tap(name: str, *arguments: Any) -> None:
        looks[0] += name == "load"

    room.tap("checkpoints", tap)
    room.tap("storage", fails)
    failed = 0
    for _ in range(6 * 60):
        failed += room.tried(job) != ""
        room.wait(60)
    assert failed <= 5  # the tries of one message are more
    assert looks[0] <= most
    assert room.telemetry["RunsNotWatched"] > 0
    assert room.trouble(job)
    room.world = whole
    room.pass_time(pause + 60)
    assert room.known(job).steps == 1
    assert room.trouble(job) == ""


def test_a_service_that_fails_for_a_moment_delays_nothing(tmp_path: Path) -> None:
    room = Room(tmp_path, VANISHING, now=START + 100)
    job = room.job()
    job.steps(1)
    room.failing("storage", "read", times=3)
    failed = [bool(room.tried(job)) for _ in range(4)]
    assert failed == [True, True, True, False]
    assert room.known(job).steps == 1
    assert room.telemetry["RunsNotWatched"] == 0

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tocsin.actions import recent as module
from tocsin.actions.recent import recent
from tocsin.model import Mode, TensorSummary
from tocsin.tensors import Captured, LocalStorage, Object, index_key, write_step

from tests.waiting import PATIENCE

TENSOR = "gradient/fc1"
Save = Callable[..., None]


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long reading takes, it is all read."""
    monkeypatch.setattr(module, "_SECONDS", PATIENCE)
    monkeypatch.setattr(module, "_LONGEST", PATIENCE)


@dataclass
class Counting(LocalStorage):
    """Counts what is read and listed."""

    inner: LocalStorage
    reads: list[str] = field(default_factory=list)
    listed: int = 0

    @property
    def url(self) -> str:
        return self.inner.url

    def list(self, prefix: str, after: str = "") -> Iterator[Object]:
        for found in self.inner.list(prefix, after):
            self.listed += 1
            yield found

    def read(self, key: str, limit: int | None = None) -> bytes:
        self.reads.append(key)
        return self.inner.read(key, limit)


@pytest.fixture
def storage(tmp_path: Path) -> Counting:
    return Counting(LocalStorage(tmp_path / "run"))


@pytest.fixture
def save(storage: Counting) -> Save:
    """Saves the alert's tensor with a summary at each of the steps."""

    def save(
        steps: Iterable[int], worker: str = "worker_0", mode: Mode = Mode.TRAIN, **more: Any
    ) -> None:
        for step in steps:
            summary = TensorSummary(**({"size": 4, "abs_mean": float(step), "mean": -1.0} | more))
            tensors = [Captured(TENSOR, shape=(4,), dtype="float32", summary=summary)]
            place = {"step": step, "worker": worker, "mode": mode, "mode_step": step}
            write_step(storage.inner, **place, tensors=tensors)

    return save


@pytest.mark.parametrize(
    ("steps", "at", "expected"),
    [
        (range(0, 130, 10), 120, range(0, 130, 10)),
        (range(50), 40, range(9, 41)),
        (range(0, 5000, 100), 4900, range(3900 + 100, 5000, 100)),  # ten lie within 1,000 steps
        (range(0, 40_000, 1000), 39_000, range(8000, 40_000, 1000)),  # too few: 32,000 steps
        ([120], 120, [120]),
        ([], 120, []),
        ([999, 1000, 1001], 1000, [999, 1000]),
    ],
)
def test_the_last_saves_up_to_the_alert(
    storage: Any, save: Save, make_alert: Any, steps: Any, at: int, expected: Any
) -> None:
    save(steps)
    found = recent(storage, make_alert(Step=at))
    assert found == tuple((step, float(step)) for step in expected)
    assert len(storage.reads) <= 200


def test_of_the_same_worker_mode_and_tensor(storage: Any, save: Save, make_alert: Any) -> None:
    save([10, 20])
    save([10, 30], worker="worker_1")
    save([40], mode=Mode.EVAL)
    assert [step for step, _ in recent(storage, make_alert(Step=50))] == [10, 20]
    assert [step for step, _ in recent(storage, make_alert(Step=50, Mode="EVAL"))] == [40]
    anybody = make_alert(Step=50, Worker=None, Mode=None)
    assert [step for step, _ in recent(storage, anybody)] == [10, 20, 30, 40]
    assert recent(storage, make_alert(Step=50, Tensor="other")) == ()


def test_the_field_is_what_decided_else_the_mean(storage: Any, save: Save, make_alert: Any) -> None:
    save([10])
    assert recent(storage, make_alert(Evidence={"abs_mean": 1.0})) == ((10, 10.0),)
    assert recent(storage, make_alert(Evidence={"ratio": 1.0})) == ((10, -1.0),)


def test_what_is_not_finite_is_nan_and_what_is_unknown_is_left_out(
    storage: Any, save: Save, make_alert: Any
) -> None:
    save([10], abs_mean=None, nan=4)
    save([20], abs_mean=None, nan=0, posinf=0, neginf=0)
    save([30], abs_mean=None)
    save([40], abs_mean=2.0, nan=3)
    (first, value), last = recent(storage, make_alert())
    assert first == 10
    assert math.isnan(value)
    assert last == (40, 2.0)


@pytest.mark.parametrize(
    "fields", [{"Tensor": None}, {"Step": None}, {"Step": 10**11}, {"Step": 10**18 - 1}]
)
def test_an_alert_of_no_tensor_or_no_place_costs_nothing(
    storage: Any, save: Save, make_alert: Any, fields: Any
) -> None:
    save([10])
    assert recent(storage, make_alert(**fields)) == ()
    assert (storage.reads, storage.listed) == ([], 0)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff" * 100, b"x" * ((4 << 20) + 1)])
def test_a_file_that_cannot_be_used_is_left_out(
    storage: Any, save: Save, make_alert: Any, content: bytes
) -> None:
    save([10, 30])
    storage.inner.write(index_key(20, "worker_0"), content)
    storage.inner.write("index/000000000/notes.txt", b"")
    assert [step for step, _ in recent(storage, make_alert())] == [10, 30]


def test_reads_no_more_than_200_files(storage: Any, save: Save, make_alert: Any) -> None:
    save(range(300), mode=Mode.EVAL)
    assert recent(storage, make_alert(Step=299)) == ()
    assert len(storage.reads) == 200


def test_reads_no_more_than_64_mib(storage: Any, make_alert: Any) -> None:
    for step in range(20):
        storage.inner.write(index_key(step, "worker_0"), b" " * (4 << 20))
    assert recent(storage, make_alert()) == ()
    assert len(storage.reads) == 16


def test_stops_when_its_time_is_up(
    storage: Any, save: Save, make_alert: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SECONDS", 2.0)
    save(range(40))
    times = iter([0.0, 1.0, 4.0])
    found = recent(storage, make_alert(Step=39), lambda: next(times))
    assert [step for step, _ in found] == list(range(32, 40))


def test_of_too_many_files_only_the_nearest_are_listed(make_alert: Any, save: Save) -> None:
    class Crowded:
        """A run of 100 workers that saved every step, and one of them is asked for."""

        url = "s3://captures/j1"
        after: list[str] = []  # noqa: RUF012 - of this one test

        def list(self, prefix: str, after: str = "") -> Iterator[Object]:
            self.after.append(after)
            first = 0 if after == "index/" else int(after.rpartition("/")[2][:-1]) + 1
            for step in range(first, 100_000):
                for worker in range(100):
                    yield Object(index_key(step, f"worker_{worker}"), 10, 0.0)

        def read(self, key: str, limit: int | None = None) -> bytes:
            return b"{}"

    storage: Any = Crowded()
    assert recent(storage, make_alert(Step=5000)) == ()
    assert len(storage.after) == 2


def test_waits_for_no_read_that_hangs(
    storage: Any, save: Save, make_alert: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LONGEST", 0.01)
    save([10])
    released = threading.Event()

    def hang(key: str, limit: int | None = None) -> bytes:
        released.wait()
        return b""

    storage.read = hang
    assert recent(storage, make_alert()) == ()  # while the read still hangs
    released.set()


@pytest.mark.parametrize("error", [PermissionError("denied"), RuntimeError("gone")])
def test_never_raises(make_alert: Any, error: Exception) -> None:
    class Broken:
        def list(self, prefix: str, after: str = "") -> Iterator[Object]:
            raise error

    storage: Any = Broken()
    assert recent(storage, make_alert()) == ()

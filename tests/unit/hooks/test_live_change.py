"""A newer watch.json in the run changes what is captured while the training runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tocsin.tensors import WATCH, LocalStorage, read_values
from tocsin.watch import Watch, encode_watch, parse_watch, to_watch
from tocsin_hooks import Hook, modes, uploader

from tests.waiting import PATIENCE

POLL = 0.005


@dataclass
class Training:
    """A loop whose weights move, of which each call of ``step`` is one step."""

    hook: Hook

    def __post_init__(self) -> None:
        self._weight = np.linspace(-1, 1, 200, dtype=np.float32).reshape(20, 10)

    def step(self) -> None:
        with self.hook.step(modes.TRAIN):
            self._weight *= np.float32(0.999)
            self.hook.save("loss", 0.5, collection="losses")
            self.hook.save("weight", self._weight, collection="weights")
            self.hook.save("relu", self._weight, "activation_outputs", kind="relu")

    def until(self, done: Callable[[], bool]) -> int:
        """Train on until something is so; the number of the step that comes next."""
        end = time.monotonic() + PATIENCE
        while not done():
            assert time.monotonic() < end
            self.step()
            time.sleep(0.001)  # as a training does in its steps: else there would be thousands
        return self.hook.position["TRAIN"]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def training(run: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Training]]:
    made: list[Hook] = []
    monkeypatch.setattr(uploader, "_MOST_STEPS", 10**9)  # none is dropped on a slow disk

    def make(watch: dict[str, Any] | None, **options: Any) -> Training:
        watched = None if watch is None else to_watch(watch)
        made.append(Hook(run, watch=watched, poll_interval=POLL, max_overhead=None, **options))
        return Training(made[-1])

    yield make
    for hook in made:
        hook.close()


def write(run: Path, watch: dict[str, Any]) -> None:
    LocalStorage(run).write(WATCH, encode_watch(to_watch(watch)))


def changed(training: Training, run: Path, watch: dict[str, Any]) -> int:
    """Put a newer watch file into the run, and train until it holds: the first step with it."""
    before = training.hook.generation
    training.until((run / WATCH).exists)  # the hook's own is there: what follows is newer
    write(run, watch)
    return training.until(lambda: training.hook.generation > before) - 1


def capture(interval: int, **collections: dict[str, Any]) -> dict[str, Any]:
    return {
        "rules": ["LossNotDecreasing"],
        "capture": {"save_interval": interval, "collections": collections},
    }


def test_the_interval(run: Path, training: Any, index_files: Any) -> None:
    loop = training(capture(1_000_000))
    first = changed(loop, run, capture(1))
    loop.until(lambda: loop.hook.position["TRAIN"] == first + 5)
    loop.hook.close()
    steps = [index.step for index in index_files(run)]
    assert steps == [0, *range(first, first + 5)]
    assert parse_watch((run / WATCH).read_bytes()).capture.save_interval == 1


def test_an_interval_that_was_an_argument_gives_way(
    run: Path, training: Any, index_files: Any
) -> None:
    loop = training(capture(3), save_interval=1_000_000)
    first = changed(loop, run, capture(2))
    loop.until(lambda: loop.hook.position["TRAIN"] == first + 4)
    loop.hook.close()
    steps = [index.step for index in index_files(run)]
    assert steps == [0, *(step for step in range(first, first + 4) if step % 2 == 0)]


def test_the_values_of_a_collection(run: Path, training: Any, index_files: Any) -> None:
    loop = training(capture(1))
    first = changed(loop, run, capture(1, weights={"save_raw_tensor": True}))
    last = changed(loop, run, capture(1))
    loop.hook.close()
    assert first < last
    for index in index_files(run):
        values = read_values(LocalStorage(run), index)
        assert ("weight" in values) is (first <= index.step < last)
        assert index.entry("weight").summary.size == 200


def test_the_needs_of_another_rule(run: Path, training: Any, index_files: Any) -> None:
    loop = training({**capture(1), "rules": ["LossNotDecreasing"]})
    first = changed(loop, run, {**capture(1), "rules": ["DeadRelu", "FrozenParameters"]})
    loop.until(lambda: loop.hook.position["TRAIN"] == first + 3)
    loop.hook.close()
    for index in index_files(run):
        relu, weight = (index.entry(name).summary for name in ("relu", "weight"))
        assert (relu.units is not None) is (index.step >= first)
        # The first save under the new file has none before it to be set against.
        assert (weight.update_l2 is not None) is (index.step > first)


def test_a_run_that_had_no_watch_file_gets_one(run: Path, training: Any, index_files: Any) -> None:
    loop = training(None, save_interval=1_000_000)
    loop.until(lambda: loop.hook.stats.saved == 1)
    assert not (run / WATCH).exists()
    write(run, capture(1))
    first = loop.until(lambda: loop.hook.generation == 1) - 1
    loop.until(lambda: loop.hook.position["TRAIN"] == first + 3)
    loop.hook.close()
    assert [index.step for index in index_files(run)] == [0, first, first + 1, first + 2]


@pytest.mark.parametrize("content", [b"{", b'{"rules": 7}', b'{"capture": {"every": 1}}'])
def test_one_that_cannot_be_used_is_told_once_and_the_next_good_one_holds(
    run: Path, training: Any, index_files: Any, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    loop = training(capture(1_000_000))
    loop.until((run / WATCH).exists)
    LocalStorage(run).write(WATCH, content)
    loop.until(lambda: "watch.json" in caplog.text)
    first = changed(loop, run, capture(1))
    loop.until(lambda: loop.hook.position["TRAIN"] == first + 2)
    loop.hook.close()
    assert [index.step for index in index_files(run)] == [0, first, first + 1]
    told = [each for each in caplog.records if each.levelname in ("WARNING", "ERROR")]
    assert [str(run) in each.getMessage() for each in told] == [True]


def test_one_of_an_earlier_start_is_replaced(run: Path, training: Any, index_files: Any) -> None:
    write(run, capture(1, weights={"save_raw_tensor": True}))
    own = capture(5)
    loop = training(own)
    loop.until(lambda: loop.hook.stats.saved >= 3)
    loop.hook.close()
    kept = parse_watch((run / WATCH).read_bytes())
    assert kept == _effective(to_watch(own))
    assert loop.hook.generation == 0
    for index in index_files(run):
        assert index.step % 5 == 0
        assert "weight" not in read_values(LocalStorage(run), index)


def _effective(watch: Watch) -> Watch:
    """As it is read back."""
    return parse_watch(encode_watch(watch))

from __future__ import annotations

from pathlib import Path

import pytest
from tocsin.model import Mode
from tocsin.watch import Capture, CollectionConfig, Watch
from tocsin_hooks._settings import Interval, Schedule, settings

TRAIN, EVAL = Mode.TRAIN, Mode.EVAL
WATCH = Watch(capture=Capture(save_interval=4))


@pytest.mark.parametrize(
    ("watch", "interval", "train", "evaluation"),
    [
        (None, None, 10, 10),
        (None, 3, 3, 3),
        (None, {TRAIN: 5, EVAL: 1}, 5, 1),
        (None, {EVAL: 1}, 10, 1),
        (WATCH, None, 4, 4),
        (WATCH, 7, 7, 7),
        (WATCH, {EVAL: 1}, 4, 1),
    ],
)
def test_arguments_win_over_the_watch_file_and_that_over_the_default(
    watch: Watch | None, interval: Interval | None, train: int, evaluation: int
) -> None:
    found = settings(watch, interval)
    assert (found.intervals[TRAIN], found.intervals[EVAL]) == (train, evaluation)
    assert watch is None or (found.watch and found.watch.capture.save_interval == train)


@pytest.mark.parametrize("interval", [0, -1, {TRAIN: 0}])
def test_an_interval_below_one_is_refused(interval: Interval) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        settings(None, interval)


def test_a_pattern_that_does_not_compile_is_told_at_the_start() -> None:
    broken = Watch(capture=Capture(collections={"mine": CollectionConfig(include_regex="(")}))
    with pytest.raises(ValueError, match="regular expression"):
        settings(broken, None)


def test_a_watch_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "watch.yaml"
    file.write_text("capture: {save_interval: 2, collections: {weights: {save_raw_tensor: true}}}")
    found = settings(file, None)
    assert found.intervals[TRAIN] == 2
    assert found.raw(("weights",))
    assert not found.raw(("biases",))


@pytest.mark.parametrize(
    ("name", "collection", "expected"),
    [
        ("fc1.weight", None, ("fc", "all_weights")),
        ("fc1.weight", "weights", ("weights", "fc", "all_weights")),
        ("fc1.weight", "fc", ("fc", "all_weights")),
        ("conv.bias", None, ("default",)),
        ("conv.bias", "biases", ("biases",)),
    ],
)
def test_collections_are_named_or_found_by_pattern(
    name: str, collection: str | None, expected: tuple[str, ...]
) -> None:
    configured = {
        "fc": CollectionConfig(include_regex="^fc"),
        "all_weights": CollectionConfig(include_regex=("weight$", "kernel$")),
    }
    found = settings(Watch(capture=Capture(collections=configured)), None)
    assert found.collections_of(name, collection) == expected


def test_steps_are_saved_by_their_number_in_their_mode() -> None:
    schedule = Schedule(settings(None, {TRAIN: 3, EVAL: 2}))
    assert [step for step in range(8) if schedule.due(TRAIN, step, 0.0)] == [0, 3, 6]
    assert [step for step in range(5) if schedule.due(EVAL, step, 0.0)] == [0, 2, 4]


def test_steps_are_saved_by_the_clock_where_that_is_sooner() -> None:
    watch = Watch(capture=Capture(save_interval=100, save_interval_seconds=30))
    schedule = Schedule(settings(watch, None))
    saved = []
    for step in range(120):  # ten seconds a step
        if schedule.due(TRAIN, step, 1000.0 + 10 * step):
            schedule.saved(TRAIN, 1000.0 + 10 * step)
            saved.append(step)
    assert saved[:4] == [0, 3, 6, 9]
    assert 100 in saved


def test_a_collection_may_have_an_interval_of_its_own() -> None:
    configured = {"weights": CollectionConfig(save_interval=4)}
    schedule = Schedule(settings(Watch(capture=Capture(collections=configured)), 6))
    saved = {step: due for step in range(13) if (due := schedule.due(TRAIN, step, 0.0))}
    assert [step for step, due in saved.items() if due.wants(("weights",))] == [0, 4, 8, 12]
    assert [step for step, due in saved.items() if due.wants(("losses",))] == [0, 6, 12]
    assert [step for step, due in saved.items() if due.wants(("weights", "losses"))] == [
        0, 4, 6, 8, 12,
    ]  # fmt: skip

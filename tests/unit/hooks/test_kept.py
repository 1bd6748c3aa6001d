"""What a script saves by name while no step is saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tocsin import create_trial, modes
from tocsin.watch import Capture, CollectionConfig
from tocsin_hooks import Hook

TRAIN, EVAL = modes.TRAIN, modes.EVAL


def values(run: Path, name: str) -> dict[int, Any]:
    """``global step → value``."""
    trial = create_trial(run)
    found = trial.tensor(name).values() if trial.has_tensor(name) else {}
    return {step: value.tolist() for step, value in found.items()}


def test_between_steps_each_save_goes_into_the_next_step_or_the_last(tmp_path: Path) -> None:
    hook = Hook(tmp_path, save_interval=10)
    hook.save("parameters", 1234.0)
    for step in range(28):
        with hook.step():
            hook.save("loss", step, "losses")
        if step % 7 == 6:
            hook.save("epoch_loss", step)
    hook.close()
    assert values(tmp_path, "parameters") == {0: [1234.0]}
    assert values(tmp_path, "epoch_loss") == {7: [6], 14: [13], 21: [20], 27: [27]}
    assert values(tmp_path, "loss") == {0: [0], 10: [10], 20: [20]}
    assert hook.stats.saved == 7
    assert hook.position["TRAIN"] == 28


def test_where_the_last_step_was_written_there_is_one_more(tmp_path: Path) -> None:
    hook = Hook(tmp_path, save_interval=1)
    with hook.step():
        hook.save("loss", 1.0, "losses")
    hook.save("accuracy", 0.5)
    hook.close()
    assert values(tmp_path, "accuracy") == {1: [0.5]}
    assert hook.position["TRAIN"] == 2  # a hook that goes on from here does not overwrite it


def test_the_last_step_takes_it_if_it_was_not_written(tmp_path: Path) -> None:
    with Hook(tmp_path, save_interval=10) as hook:
        for step in range(15):
            with hook.step():
                hook.save("loss", step, "losses")
        hook.save("accuracy", 0.5)
    assert values(tmp_path, "accuracy") == {14: [0.5]}
    assert create_trial(tmp_path).steps(TRAIN) == [0, 10, 14]


def test_without_any_step(tmp_path: Path) -> None:
    with Hook(tmp_path) as hook:
        hook.save("heartbeat", 1)
        hook.save("heartbeat", 2)
        hook.save("table", np.arange(3))
    assert values(tmp_path, "heartbeat") == {0: [2]}
    assert create_trial(tmp_path).tensor("table").summary(0).max == 2  # as in any step


def test_what_the_script_changes_later_is_kept_as_it_was(tmp_path: Path) -> None:
    with Hook(tmp_path) as hook:
        counts = np.arange(3)
        hook.save("counts", counts, raw=True)
        counts += 10
        with hook.step():
            pass
    assert values(tmp_path, "counts") == {0: [0, 1, 2]}


def test_what_is_saved_after_each_step_goes_by_the_interval(tmp_path: Path) -> None:
    hook = Hook(tmp_path, save_interval=10)
    for step in range(25):
        with hook.step():
            hook.save("loss", step, "losses")
        hook.save("after", step)
    hook.close()
    assert values(tmp_path, "after") == {1: [0], 10: [9], 20: [19], 24: [24]}


@pytest.mark.parametrize(
    ("every", "expected"),
    [(1, {0: [0], 10: [10], 20: [20]}), (7, {0: [0], 7: [7], 14: [14], 21: [21]})],
)
def test_in_a_step_that_a_framework_begins(
    tmp_path: Path, every: int, expected: dict[int, list[int]]
) -> None:
    hook = Hook(tmp_path, save_interval=10)
    for step in range(25):
        hook.begin(TRAIN)
        if step % every == 0:
            hook.save("number", step)
            hook.save("array", np.arange(3), raw=True)
    hook.close()
    assert values(tmp_path, "number") == expected
    assert set(values(tmp_path, "array")) <= {0, 10, 20}  # an array goes by the interval


def test_a_step_of_its_own_keeps_what_it_has_saved(tmp_path: Path) -> None:
    with Hook(tmp_path) as hook:
        hook.save("loss", 1.0, "losses")
        with hook.step():
            hook.save("loss", 2.0, "losses")
        with hook.step(EVAL):
            pass
    assert values(tmp_path, "loss") == {0: [2.0]}
    assert create_trial(tmp_path).modes() == [TRAIN]


def test_a_bad_value_is_counted_and_the_rest_is_written(tmp_path: Path) -> None:
    with Hook(tmp_path) as hook:
        hook.save("odd", object())
        hook.save("good", 1)
        hook.save("", 1)
    assert values(tmp_path, "good") == {0: [1]}
    assert hook.stats.errors == 2


def test_a_worker_that_captures_nothing_keeps_nothing(tmp_path: Path) -> None:
    hook = Hook(tmp_path, worker="worker_1", num_workers=2, include_workers="one")
    hook.save("number", 1)
    with hook.step():
        pass
    hook.close()
    assert list(tmp_path.iterdir()) == []


def test_a_storage_that_is_too_slow_keeps_it_waiting(tmp_path: Path, storage: Any) -> None:
    hook = Hook(storage, save_interval=1)
    storage.gate.clear()
    for step in range(80):  # more than wait for storage at once
        with hook.step():
            hook.save("loss", step, "losses")
    assert hook.stats.dropped
    hook.save("epoch_loss", 1.0)
    with hook.step():
        pass
    storage.gate.set()
    hook.close()
    assert list(values(tmp_path / "run", "epoch_loss").values()) == [[1.0]]


def test_what_is_not_urgent_waits_for_a_saved_step(tmp_path: Path) -> None:
    """As save_scalar of smdebug does: any step that is saved takes it, and the last one does."""
    losses = Capture(collections={"losses": CollectionConfig(save_interval=3)}, save_interval=5)
    hook = Hook(tmp_path, capture=losses)
    for step in range(8):
        hook.begin(TRAIN)
        hook.save("loss", step, "losses")
        hook.keep("number", step, urgent=False)
    hook.close()
    assert values(tmp_path, "number") == {0: [0], 3: [3], 5: [5], 6: [6], 7: [7]}


def test_a_step_that_cannot_begin_overwrites_none(tmp_path: Path) -> None:
    hook = Hook(tmp_path, save_interval=1)
    with hook.step():
        hook.save("loss", 1.0, "losses")
    hook.save("number", 1)
    with hook.step("train"):  # type: ignore[arg-type]
        pass
    hook.close()
    assert values(tmp_path, "loss") == {0: [1.0]}
    assert values(tmp_path, "number") == {1: [1]}

from __future__ import annotations

from typing import Any

import pytest
from tocsin.model import Mode
from tocsin_hooks.position import Position


def test_modes_are_counted_apart_and_together() -> None:
    position = Position()
    order = [Mode.TRAIN, Mode.TRAIN, Mode.EVAL, Mode.TRAIN, Mode.GLOBAL]
    assert [position.advance(mode) for mode in order] == [(0, 0), (1, 1), (2, 0), (3, 2), (4, 4)]
    assert position.counts == {"TRAIN": 3, "EVAL": 1, "PREDICT": 0, "GLOBAL": 5}


@pytest.mark.parametrize(
    ("resumed", "following", "recorded"),
    [
        (None, (0, 0), None),
        (99, (100, 100), 99),
        ({"TRAIN": 80, "EVAL": 20, "GLOBAL": 100}, (100, 80), 99),
        ({"TRAIN": 0, "GLOBAL": 0}, (0, 0), None),  # a checkpoint of before the first step
    ],
)
def test_it_is_taken_up_where_it_was(
    resumed: Any, following: tuple[int, int], recorded: int | None
) -> None:
    position = Position(resumed)
    assert position.resumed_from == recorded
    assert position.advance(Mode.TRAIN) == following
    assert Position(position.counts).advance(Mode.TRAIN) == (following[0] + 1, following[1] + 1)


@pytest.mark.parametrize("resumed", [-2, {"TRAIN": -1}])
def test_steps_before_the_first_are_refused(resumed: Any) -> None:
    with pytest.raises(ValueError, match="from 0 on"):
        Position(resumed)

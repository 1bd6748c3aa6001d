from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from tocsin.model import Mode
from tocsin.watch import Capture, CollectionConfig, SaveConfig, Watch
from tocsin_hooks.schedule import Schedule
from tocsin_hooks.settings import settings

TRAIN, EVAL, PREDICT, GLOBAL = Mode.TRAIN, Mode.EVAL, Mode.PREDICT, Mode.GLOBAL


def of(capture: Capture) -> Schedule:
    return Schedule(settings(Watch(capture=capture), None))


def saved(
    schedule: Schedule,
    steps: Iterable[int],
    mode: Mode = TRAIN,
    collections: tuple[str, ...] = ("losses",),
    stretch: int = 1,
) -> list[int]:
    """The steps that are saved, where global steps are ten ahead of those of the mode."""
    return [
        step
        for step in steps
        if (due := schedule.due(mode, step, step + 10, 0.0, stretch)) and due.wants(collections)
    ]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, [0, 10, 20, 30]),
        ({"save_interval": 15}, [0, 15, 30]),
        ({"save_interval": 15, "start_step": 1}, [15, 30]),  # counted from 0, not from there
        ({"save_interval": 15, "end_step": 30}, [0, 15]),  # without the end
        ({"save_interval": 15, "start_step": 15, "end_step": 16}, [15]),
        ({"save_interval": 15, "end_step": 0}, []),
        ({"save_interval": 15, "save_steps": (1, 7)}, [0, 1, 7, 15, 30]),  # both
        ({"save_steps": (33,), "start_step": 20, "end_step": 30}, [20, 33]),
        ({"save_steps": ()}, [0, 10, 20, 30]),
    ],
)
def test_steps_are_those_listed_and_every_nth_of_the_window(
    fields: dict[str, Any], expected: list[int]
) -> None:
    assert saved(of(Capture(**fields)), range(35)) == expected


def test_steps_are_counted_by_mode() -> None:
    schedule = Schedule(settings(None, {TRAIN: 3, EVAL: 2}))
    assert saved(schedule, range(8)) == [0, 3, 6]
    assert saved(schedule, range(5), EVAL) == [0, 2, 4]
    assert saved(schedule, range(11), PREDICT) == [0, 10]


def test_steps_of_no_mode_are_counted_among_all() -> None:
    schedule = of(Capture(modes={GLOBAL: SaveConfig(4, save_steps=(11,))}))
    assert saved(schedule, range(8), GLOBAL) == [1, 2, 6]  # globally 11, 12, 16
    assert saved(schedule, range(11), TRAIN) == [0, 10]


LAYERS = Capture(
    save_interval=2,
    start_step=2,
    modes={EVAL: SaveConfig(3)},
    collections={
        "weights": CollectionConfig(save_interval=5, modes={EVAL: SaveConfig(7)}),
        "biases": CollectionConfig(save_interval=5),
        "gradients": CollectionConfig(start_step=0),
        "inputs": CollectionConfig(save_steps=(1,)),
    },
)


@pytest.mark.parametrize(
    ("mode", "collections", "expected"),
    [
        (TRAIN, ("losses",), [2, 4, 6, 8]),
        (EVAL, ("losses",), [3, 6, 9]),
        (TRAIN, ("weights",), [5]),
        (EVAL, ("weights",), [7]),
        (TRAIN, ("biases",), [5]),
        (EVAL, ("biases",), [5]),  # before what the capture says of the mode
        (TRAIN, ("gradients",), [0, 2, 4, 6, 8]),
        (EVAL, ("gradients",), [0, 3, 6, 9]),
        (TRAIN, ("inputs",), [1, 2, 4, 6, 8]),
        (EVAL, ("weights", "biases", "losses"), [3, 5, 6, 7, 9]),
        (TRAIN, (), []),
    ],
)
def test_the_nearest_that_says_something_counts(
    mode: Mode, collections: tuple[str, ...], expected: list[int]
) -> None:
    assert saved(of(LAYERS), range(10), mode, collections) == expected


@pytest.mark.parametrize(
    ("stretch", "losses", "weights"), [(1, [0, 5, 6, 12], [0, 4, 8, 12]), (2, [0, 5, 12], [0, 8])]
)
def test_a_stretch_multiplies_intervals_and_spares_listed_steps(
    stretch: int, losses: list[int], weights: list[int]
) -> None:
    schedule = of(
        Capture(
            save_interval=6,
            save_steps=(5,),
            collections={"weights": CollectionConfig(save_interval=4, save_steps=())},
        )
    )
    assert saved(schedule, range(14), stretch=stretch) == losses
    assert saved(schedule, range(14), collections=("weights",), stretch=stretch) == weights


@pytest.mark.parametrize(
    ("fields", "stretch", "expected"),
    [
        ({}, 1, [0, 3, 6, 9, 12]),
        ({}, 2, [0, 6, 12]),
        ({"start_step": 4, "end_step": 10}, 1, [4, 7]),
        ({"end_step": 5, "save_steps": (8,)}, 1, [0, 3, 8]),
    ],
)
def test_steps_are_saved_by_the_clock_where_that_is_sooner(
    fields: dict[str, Any], stretch: int, expected: list[int]
) -> None:
    schedule = of(Capture(save_interval=100, save_interval_seconds=30, **fields))
    found = []
    for step in range(14):  # ten seconds a step
        now = 1000.0 + 10 * step
        if due := schedule.due(TRAIN, step, step, now, stretch):
            schedule.saved(TRAIN, due, now)
            found.append(step)
    assert found == expected


def test_the_clock_runs_for_each_mode() -> None:
    every = {EVAL: SaveConfig(save_interval=100)}
    schedule = of(Capture(save_interval=100, save_interval_seconds=30, modes=every))
    assert schedule.due(TRAIN, 1, 1, 0.0) is None
    assert schedule.due(EVAL, 1, 2, 20.0) is None
    assert schedule.due(TRAIN, 2, 3, 30.0)
    assert schedule.due(EVAL, 2, 4, 30.0) is None


def saved_among(schedule: Schedule, steps: list[tuple[Mode, int]], stretch: int = 1) -> list[Any]:
    """The steps that are saved, if TRAIN is stretched so."""
    found = []
    for mode, number in steps:
        due = schedule.due(mode, number, 0, 0.0, stretch if mode is TRAIN else 1)
        if due is not None:
            schedule.saved(mode, due, 0.0)
            found.append((mode, number))
    return found


@pytest.mark.parametrize(("stretch", "train"), [(1, [0, 10, 20]), (64, [0])])
def test_the_first_step_of_an_evaluation_is_saved(stretch: int, train: list[int]) -> None:
    schedule = of(Capture(save_interval=10))
    steps = []
    for round_ in range(3):  # three steps of evaluation after ten of training
        steps += [(TRAIN, 10 * round_ + each) for each in range(10)]
        steps += [(EVAL, 3 * round_ + each) for each in range(3)]
    found = saved_among(schedule, steps, stretch)
    assert [number for mode, number in found if mode is TRAIN] == train
    assert [number for mode, number in found if mode is EVAL] == [0, 3, 6]


def test_evaluations_are_not_saved_more_often_than_training() -> None:
    steps = [(mode, number) for number in range(20) for mode in (TRAIN, EVAL)]
    found = saved_among(of(Capture(save_interval=10)), steps)
    assert found == [(TRAIN, 0), (EVAL, 0), (TRAIN, 10), (EVAL, 10)]


@pytest.mark.parametrize(
    ("losses", "evaluations"),
    [
        (CollectionConfig(save_interval=5), 4),
        (CollectionConfig(save_steps=(3, 13, 23, 33)), 4),
        # One whose interval is set for EVAL goes by that.
        (CollectionConfig(save_interval=5, modes={EVAL: SaveConfig(3)}), 2),
        (CollectionConfig(save_interval=5, modes={EVAL: SaveConfig(start_step=2)}), 2),
    ],
)
def test_evaluations_of_a_collection_follow_training(
    losses: CollectionConfig, evaluations: int
) -> None:
    """The interval stands at a collection, as most jobs have it, and not at the top."""
    schedule = of(Capture(save_interval=500, collections={"losses": losses}))
    found = 0
    for round_ in range(4):
        for step in range(10 * round_, 10 * round_ + 10):
            if due := schedule.due(TRAIN, step, 0, 0.0):
                schedule.saved(TRAIN, due, 0.0)
        if due := schedule.due(EVAL, round_, 0, 0.0):
            schedule.saved(EVAL, due, 0.0)
            found += due.wants(("losses",))
    assert found == evaluations


def test_an_interval_of_its_own_for_eval_does_not_use_up_the_evaluation_of_the_rest() -> None:
    weights = CollectionConfig(modes={EVAL: SaveConfig(1)})
    schedule = of(Capture(save_interval=10, collections={"weights": weights}))
    assert schedule.due(TRAIN, 0, 0, 0.0)
    first = schedule.due(EVAL, 2, 0, 0.0, 2)  # EVAL is stretched: not yet the turn of the rest
    assert first is not None
    assert not first.wants(("losses",))
    schedule.saved(EVAL, first, 0.0)
    assert schedule.due(TRAIN, 10, 0, 0.0)
    second = schedule.due(EVAL, 3, 0, 0.0, 2)
    assert second is not None
    assert second.wants(("losses",))


def test_a_step_of_which_nothing_is_saved_is_not_due() -> None:
    schedule = of(Capture(end_step=1, collections={"weights": CollectionConfig(end_step=20)}))
    assert [step for step in range(31) if schedule.due(TRAIN, step, step, 0.0)] == [0, 10]


def test_what_is_saved_more_often_leaves_the_clock_of_the_rest_alone() -> None:
    losses = CollectionConfig(save_interval=1)
    schedule = of(
        Capture(save_interval=100, save_interval_seconds=30, collections={"losses": losses})
    )
    found = []
    for step in range(1, 10):  # ten seconds a step
        due = schedule.due(TRAIN, step, step, 10.0 * step)
        assert due is not None
        assert due.wants(("losses",))
        schedule.saved(TRAIN, due, 10.0 * step)
        found += [step] if due.wants(("weights",)) else []
    assert found == [4, 7]


def test_several_workers_count_steps_in_place_of_seconds() -> None:
    schedule = of(Capture(save_interval=100, save_interval_seconds=30))

    def found(stretch: int, every: int | None) -> list[int]:
        steps = range(1, 13)
        return [s for s in steps if schedule.due(TRAIN, s, s, None, stretch, every)]

    assert found(1, None) == []
    assert found(1, 3) == [3, 6, 9, 12]
    assert found(2, 3) == [6, 12]

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from tocsin.model import HELD_OUT, TRAINED, Mode, Outcome, Role, TensorSummary
from tocsin.rules import Step, Tensor
from tocsin.rules.evaluation.train_eval_inputs import TrainEvalInputs

from tests.unit.rules.judging import outcomes, valued

HEALTHY, VIOLATION = Outcome.HEALTHY, Outcome.VIOLATION
PLAIN = np.array([[-1.0, 0.0, 1.0, 500.0]] * 8)


def other(columns: int, moved: float = 0.0, times: float = 1.0, values: int = 500) -> object:
    """The quartiles of an evaluated set in which so many columns are another thing."""
    found = PLAIN.copy()
    found[:columns, :3] = found[:columns, :3] * times + moved
    found[:, 3] = values
    return found


def rounds(held: object, evaluated: float, trained: float = 0.5, count: int = 20) -> Iterator[Step]:
    """Rounds of boosting in which losses fall from 1 to these."""
    for at in range(count):
        share = at / (count - 1)
        losses = tuple(
            Tensor(
                name,
                "worker_0",
                TensorSummary(mean=1 - share * (1 - end)),
                role=Role.LOSS,
                kind=kind,
            )
            for name, kind, end in (
                ("held_out-rmse", HELD_OUT, evaluated),
                ("mine-rmse", TRAINED, trained),
            )
        )
        columns = (
            valued("columns/mine", PLAIN, role=Role.COLUMN, kind=TRAINED),
            valued("columns/held_out", np.asarray(held), role=Role.COLUMN, kind=HELD_OUT),
        )
        tensors = {"inputs": (), "losses": losses, "columns": columns if at == 0 else ()}
        yield Step(at, Mode.TRAIN, at, 0.0, tensors)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (rounds(other(4, moved=3), 0.9), VIOLATION),
        (rounds(other(4, times=30), 0.9), VIOLATION),
        (rounds(other(2, times=0), 1.3), VIOLATION),  # all values are one
        (rounds(other(4, moved=3), 0.8), HEALTHY),  # it does no harm
        (rounds(other(1, moved=1e9), 0.9), HEALTHY),  # a date
        (rounds(other(4, moved=0.5, times=1.5), 0.9), HEALTHY),
        (rounds(other(4, moved=3, values=30), 0.9), HEALTHY),  # too few
        (rounds(other(0), 0.99), HEALTHY),
        (rounds(other(4, moved=3), 0.9, count=8), Outcome.UNDECIDED),
        (rounds(other(4, moved=3), 0.9, trained=1.0), Outcome.UNDECIDED),  # nothing is learned
        (rounds(PLAIN[:5], 0.9), Outcome.NOT_APPLICABLE),
        (rounds(np.full((8, 4), np.inf), 0.9), HEALTHY),
        (rounds(np.zeros(3), 0.9), Outcome.NOT_APPLICABLE),
        (rounds(other(4, moved=3), float("nan")), Outcome.UNDECIDED),
        (rounds(other(4, moved=3), 0.9, trained=float("nan")), Outcome.UNDECIDED),
    ],
)
def test_columns_of_boosted_trees(steps: Iterator[Step], expected: Outcome) -> None:
    assert outcomes(TrainEvalInputs(), steps)[-1] is expected


def several(order: list[int], moved: float = 0.0, seed: int = 0) -> object:
    """Columns of their own places and widths, in an order, each sample of them a little other."""
    at = np.array([[0.0, 1.0, 3.0], [50.0, 60.0, 65.0], [-3.0, -2.9, -2.7], [5.0, 9.0, 10.0]])
    random = np.random.default_rng(seed)
    wide = (at[:, 2] - at[:, 0])[:, None]
    at = at + 0.05 * wide * random.uniform(-1, 1, at.shape) + moved * wide
    return np.column_stack([at, np.full(4, 400.0)])[order]


def held_out(ours: object, theirs: object, evaluated: float = 0.5) -> list[Outcome]:
    def steps() -> Iterator[Step]:
        for step in rounds(theirs, evaluated):
            columns = step.tensors["columns"][1:]
            mine = valued("columns/mine", np.asarray(ours), role=Role.COLUMN, kind=TRAINED)
            tensors = {**step.tensors, "columns": (mine, *columns) if columns else ()}
            yield Step(step.step, step.mode, step.mode_step, 0.0, tensors)

    return outcomes(TrainEvalInputs(), steps())


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ([0, 1, 2, 3], HEALTHY),
        ([1, 0, 2, 3], VIOLATION),
        ([2, 3, 1, 0], VIOLATION),
        ([1, 1, 2, 3], HEALTHY),  # one that is there twice: no exchange
    ],
)
def test_columns_that_have_exchanged_their_places(order: list[int], expected: Outcome) -> None:
    found = held_out(several([0, 1, 2, 3]), several(order, seed=1))
    assert found[-1] is expected
    assert found[0] is expected or expected is HEALTHY  # at once, whatever the loss


def test_columns_that_drift_or_are_alike_have_exchanged_nothing() -> None:
    ours = several([0, 1, 2, 3])
    assert VIOLATION not in held_out(ours, several([0, 1, 2, 3], moved=0.5))
    flags = np.array([[0.0, 0.0, 1.0, 400.0], [0.0, 1.0, 1.0, 400.0]])
    assert VIOLATION not in held_out(flags, flags[::-1])
    chain = np.array([[at, at + 1.0, at + 2.0, 400.0] for at in range(5)])
    assert VIOLATION not in held_out(chain, chain + np.array([1.0, 1.0, 1.0, 0.0]))
    alike = np.asarray(several([0, 0, 1, 1]))
    assert VIOLATION not in held_out(alike, alike[[1, 0, 3, 2]])


@pytest.mark.parametrize("seed", range(5))
def test_many_columns_that_drift_have_exchanged_nothing(seed: int) -> None:
    """As of another laboratory: some get the quartiles of others, a few those of a circle."""
    random = np.random.default_rng(seed)
    middle, wide = random.uniform(0, 12, 300), random.uniform(0.5, 1.5, 300)
    later = middle + wide * random.normal(size=300) * (random.random(300) < 0.5)

    def columns(at: np.ndarray, values: float) -> np.ndarray:
        quartiles = at[:, None] + wide[:, None] * np.array([-0.5, 0.0, 0.5])
        return np.column_stack([quartiles, np.full(300, values)])

    assert VIOLATION not in held_out(columns(middle, 1000.0), columns(later, 500.0))


def test_many_that_have_exchanged_their_places_leave_a_small_state() -> None:
    places = 1e6 * np.random.default_rng(1).random(1024)
    ours = np.array([[at, at + 0.3, at + 1.0, 4000.0] for at in places])
    steps = rounds(ours[np.random.default_rng(0).permutation(1024)], 0.5)
    first = next(steps)
    mine = valued("columns/mine", ours, role=Role.COLUMN, kind=TRAINED)
    tensors = {**first.tensors, "columns": (mine, first.tensors["columns"][1])}
    state, verdict = TrainEvalInputs().evaluate({}, Step(0, Mode.TRAIN, 0, 0.0, tensors))
    assert verdict.measure is not None
    assert verdict.measure.value > 1000
    assert "columns 0, 1, 2, 3, 4, 5 … (counted from 0)" in (verdict.detail or "")
    assert len(str(state)) < 400

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from tocsin.model import HELD_OUT, TRAINED, Mode, Outcome, Role, TensorSummary
from tocsin.rules import Step, Tensor
from tocsin.rules.train_eval_inputs import TrainEvalInputs

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

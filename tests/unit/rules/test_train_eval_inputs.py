from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from tocsin.model import ACTING, Mode, Outcome, Role
from tocsin.rules import Step
from tocsin.rules.evaluation.train_eval_inputs import TrainEvalInputs

from tests.unit.rules.judging import HEALTHY, UNDECIDED, VIOLATION, judged, outcomes, valued

READ = TrainEvalInputs().reads().tensors["inputs"]


def run(
    scale: float = 1.0,
    shift: float = 0.0,
    *,
    samples: int = 64,
    batch: int = 32,
    first_loss: float | None = None,
    train_loss: float = 0.5,
    eval_loss: float | None = 1.0,
    unit: float = 1.0,
    whole: bool = False,
    kind: str | None = None,
) -> Iterator[Step]:
    """Twelve training steps, then four batches of an evaluation."""
    random = np.random.default_rng(0)
    means = random.normal(size=20)
    for at in range(16):
        held = at >= 12
        x = means + random.normal(size=(samples if held else batch, 20))
        x = unit * (x * scale + shift if held else x)
        inputs = valued("X_input_0", x.astype(int) if whole else x, read=READ, role=Role.INPUT)
        loss = eval_loss if held else train_loss
        loss = first_loss if at == 0 and first_loss else loss
        losses = () if loss is None else (valued("loss", loss, role=Role.LOSS, kind=kind),)
        mode = Mode.EVAL if held else Mode.TRAIN
        yield Step(at, mode, at, float(at), {"inputs": (inputs,), "losses": losses})


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (run(), HEALTHY),
        (run(255.0), VIOLATION),
        (run(255.0, kind=ACTING), Outcome.NOT_APPLICABLE),
        (run(1 / 255), VIOLATION),
        (run(1 / 255, eval_loss=0.55), HEALTHY),  # samples may lie closer together
        (run(1 / 255, eval_loss=0.7, first_loss=12.0), HEALTHY),
        (run(0.0), VIOLATION),
        (run(shift=3.0), VIOLATION),
        (run(shift=3.0, eval_loss=0.55), HEALTHY),  # it does no harm
        (run(255.0, eval_loss=0.55), VIOLATION),
        (run(shift=3.0, first_loss=5.0), VIOLATION),
        (run(shift=3.0, first_loss=12.0), HEALTHY),  # little, beside what was learned
        (run(255.0, first_loss=12.0), VIOLATION),
        (run(255.0, batch=4), VIOLATION),
        (run(shift=3.0, batch=4), HEALTHY),  # so few show little of a mean
        (run(shift=2.0, eval_loss=None), HEALTHY),  # whether it does harm is unknown
        (run(shift=9.0, eval_loss=None), VIOLATION),
        (run(shift=0.3), HEALTHY),  # another sample of the same kind
        (run(1.5), HEALTHY),  # augmented
        (run(255.0, eval_loss=0.4), HEALTHY),  # and it is meant
        (run(255.0, samples=8), UNDECIDED),
        (run(255.0, unit=1e6), VIOLATION),
        (run(unit=1e-6), HEALTHY),
    ],
)
def test_courses(steps: Iterator[Step], expected: Outcome) -> None:
    assert outcomes(TrainEvalInputs(), steps)[-1] is expected


@pytest.mark.parametrize("steps", [run(255.0, whole=True), run(255.0, samples=4)])
def test_tokens_and_tiny_batches_are_not_judged(steps: Iterator[Step]) -> None:
    assert VIOLATION not in outcomes(TrainEvalInputs(), steps)


def test_it_says_what_differs() -> None:
    details = [judged(TrainEvalInputs(), run(*how))[-1].detail for how in ((255.0,), (1.0, 3.0))]
    assert "evaluation data is scaled differently" in details[0]
    assert "the means of 100 % of the features of X_input_0 differ" in details[1]


def test_a_long_tail_that_the_evaluation_happens_to_miss() -> None:
    """One row in a batch is far away, in half of the batches of training; the evaluation is always
    of the same rows, and has none."""

    def steps(scale: float) -> Iterator[Step]:
        random = np.random.default_rng(0)
        held = random.normal(size=(16, 8))
        for at in range(30):
            evaluates = at % 3 == 2
            x = scale * held if evaluates else random.normal(size=(16, 8))
            x[0, 0] = x[0, 0] if evaluates or at % 2 else 60.0
            inputs = valued("inputs", x, read=READ, role=Role.INPUT)
            losses = (valued("loss", 1.0 if evaluates else 0.5, role=Role.LOSS),)
            mode = Mode.EVAL if evaluates else Mode.TRAIN
            yield Step(at, mode, at, float(at), {"inputs": (inputs,), "losses": losses})

    assert VIOLATION not in outcomes(TrainEvalInputs(), steps(1.0))
    assert VIOLATION in outcomes(TrainEvalInputs(), steps(255.0))
    assert VIOLATION in outcomes(TrainEvalInputs(), steps(1 / 255))


@pytest.mark.parametrize(
    ("scale", "shift", "fires"), [(1.0, 0.0, False), (0.05, 0.0, True), (1.0, -1.0, True)]
)
def test_windows_that_follow_each_other(scale: float, shift: float, fires: bool) -> None:
    """Those of an evaluation are the first of their set, those of training are drawn from all."""
    random = np.random.default_rng(0)
    series = np.sin(np.arange(1000) / 20) + 2
    held = np.stack([series[at : at + 8] for at in range(16)])
    steps = []
    for at in range(30):
        evaluates = at % 3 == 2
        begins = random.integers(0, 990, 16)
        x = scale * (held + shift) if evaluates else np.stack([series[b : b + 8] for b in begins])
        inputs = valued("inputs", x, read=READ, role=Role.INPUT)
        losses = (valued("loss", 1.0 if evaluates else 0.5, role=Role.LOSS),)
        mode = Mode.EVAL if evaluates else Mode.TRAIN
        steps.append(Step(at, mode, at, float(at), {"inputs": (inputs,), "losses": losses}))
    assert (VIOLATION in outcomes(TrainEvalInputs(), iter(steps))) is fires


def table(held: Callable[[np.ndarray], np.ndarray], eval_loss: float = 0.6) -> Iterator[Step]:
    """Five columns: normal, normal, flags, a long tail, rows in order of time; the loss falls from
    1 to 0.1. ``held`` changes what is evaluated."""
    random = np.random.default_rng(3)

    def rows(count: int, late: float = 0.0) -> np.ndarray:
        normal = random.normal(size=(count, 2))
        others = random.random(count) < 0.3, random.lognormal(size=count), random.random(count)
        return np.column_stack([normal, *others[:2], others[2] + late])

    fixed = held(rows(128))
    for at in range(60):
        evaluates = at % 6 == 5
        x = fixed if evaluates else rows(32)
        inputs = valued("X_input_0", x, read=READ, role=Role.INPUT)
        loss = eval_loss if evaluates else 0.1 + 0.9 * (at == 0)
        losses = (valued("loss", loss, role=Role.LOSS),)
        mode = Mode.EVAL if evaluates else Mode.TRAIN
        yield Step(at, mode, at, float(at), {"inputs": (inputs,), "losses": losses})


def changed(column: int, times: float = 1.0, plus: float = 0.0) -> Callable[..., np.ndarray]:
    def change(rows: np.ndarray) -> np.ndarray:
        rows = rows.copy()
        rows[:, column] = rows[:, column] * times + plus
        return rows

    return change


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (table(changed(0)), HEALTHY),
        (table(changed(0, 1 / 3.6)), VIOLATION),
        (table(changed(0, 3.6)), VIOLATION),
        (table(changed(1, 1.0, 30.0)), VIOLATION),
        (table(changed(3, 1 / 1000)), HEALTHY),  # near its mean, as later samples may be
        (table(changed(3, 1000.0)), VIOLATION),
        (table(changed(0, 3.6), eval_loss=0.3), HEALTHY),  # it does little harm
        (table(changed(0, 2.0)), HEALTHY),
        (table(changed(0, 0.0, 0.1)), HEALTHY),  # all are of one person
        (table(changed(0, 0.0, 30.0)), VIOLATION),
        (table(changed(0, 1e150)), VIOLATION),
        (table(changed(2, 0.0)), HEALTHY),  # all are of one kind
        (table(changed(2, 0.0, 1.0)), HEALTHY),
        (table(changed(4, 0.2, 1.0)), HEALTHY),  # a date
    ],
)
def test_a_column_in_another_unit(steps: Iterator[Step], expected: Outcome) -> None:
    assert outcomes(TrainEvalInputs(), steps)[-1] is expected


def test_it_says_which_column() -> None:
    found = judged(TrainEvalInputs(), table(changed(1, 1.0, 30.0)))[-1]
    assert found.detail.startswith("feature 1 of X_input_0 has mean 30")


@pytest.mark.parametrize(
    ("held", "fires"),
    [
        (lambda at: 1.4 + at / 900, False),  # goes on where training ended
        (lambda at: (1.2 + at / 900) ** 2, False),
        (lambda at: 500 + at, True),
        (lambda at: 12 + 3 * np.sin(at), True),
    ],
)
def test_windows_of_a_series_with_a_trend(held: Callable[..., np.ndarray], fires: bool) -> None:
    random = np.random.default_rng(0)
    series = np.arange(1000) / 1000 + 0.3 + random.normal(size=1000) * 0.1
    later = held(np.arange(400)) + random.normal(size=400) * 0.1
    steps = []
    for at in range(30):
        evaluates = at % 3 == 2
        begins = range(64) if evaluates else random.integers(0, 980, 32)
        x = np.stack([(later if evaluates else series)[b : b + 12] for b in begins])
        inputs = valued("inputs", x[:, :, None], read=READ, role=Role.INPUT)
        losses = (valued("loss", 1.0 if evaluates else 0.5, role=Role.LOSS),)
        mode = Mode.EVAL if evaluates else Mode.TRAIN
        steps.append(Step(at, mode, at, float(at), {"inputs": (inputs,), "losses": losses}))
    assert (VIOLATION in outcomes(TrainEvalInputs(), iter(steps))) is fires

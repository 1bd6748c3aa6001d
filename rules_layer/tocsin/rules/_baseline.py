"""The numbers of a step that are compared with those of another run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tocsin.model import Role
from tocsin.rules._kinds import with_level
from tocsin.rules._loss_names import classify_loss, select_losses
from tocsin.rules._rule import Observation, Read, Step
from tocsin.rules._series import SCALAR_FIELDS, TRAINING, points

TRAINED, EVALUATED, GRADIENTS, SECONDS = "train", "eval", "gradients", "seconds"

COMPARED: Mapping[str, Read] = {
    "losses": Read(roles=(Role.LOSS, Role.METRIC), fields=SCALAR_FIELDS),
    "gradients": Read(roles=(Role.GRADIENT,), fields=("l2",)),
}
"""The tensors that ``observed`` needs."""

_LARGEST = 1e100  # largest compared number: its square is still finite


def observed(step: Step) -> Observation:
    """Return the numbers of a step: losses by ``train/NAME`` or ``eval/NAME``, each the mean over
    workers, and the norm of all ``gradients``.

    A loss without a level, as of a policy or in a GAN, is left out.
    """
    numbers = {**dict(_losses(step)), **dict(_gradients(step))}
    return Observation(step.mode, step.mode_step, step.step, step.time, numbers)


def _losses(step: Step) -> Iterator[tuple[str, float]]:
    known, _ = with_level(select_losses(step.tensors["losses"], ()), named=False)
    for point in points(step, known):
        validates, _ = classify_loss(step.mode, point.tensor)
        if validates is not None and abs(point.cost) < _LARGEST:
            _, _, name = point.key.partition("/")
            yield f"{EVALUATED if validates else TRAINED}/{name}", point.cost


def _gradients(step: Step) -> Iterator[tuple[str, float]]:
    """Yield the largest norm of all gradients over the workers, unless one is unknown."""
    squares: dict[str, float] = {}
    for tensor in step.tensors["gradients"]:
        norm = math.nan if tensor.summary.l2 is None else tensor.summary.l2
        squares[tensor.worker] = squares.get(tensor.worker, 0.0) + norm * norm
    norm = math.sqrt(max(squares.values(), default=math.nan))
    if norm < _LARGEST:
        yield GRADIENTS, norm


def seconds(last: Sequence[float] | None, here: Observation) -> Mapping[str, float]:
    """Return the seconds of a step since the last one, given by its number and time.

    Empty if the times of the files say nothing, as in a copy.
    """
    if last is None:
        return {}
    steps, passed = here.step - last[0], here.time - last[1]
    return {SECONDS: passed / steps} if steps > 0 and passed > 0 else {}


def with_seconds(steps: Sequence[Observation]) -> Iterator[Observation]:
    """Add to each training step of a run how long a step took since the one before."""
    last: Sequence[float] | None = None
    for each in steps:
        if each.mode in TRAINING:
            each = replace(each, numbers={**each.numbers, **seconds(last, each)})
            last = each.step, each.time
        yield each

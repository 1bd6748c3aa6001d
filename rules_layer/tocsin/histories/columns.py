"""The roles of a history's columns, for the rules that watch it."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from statistics import median

from tocsin.histories.counters import is_epoch
from tocsin.histories.machine import Measured
from tocsin.histories.names import is_loss, is_of_evaluation, is_score, role_of, with_phase_first
from tocsin.histories.scalar import Scalar
from tocsin.histories.table import BY_ORDER
from tocsin.model import Role

_FINE_STEPS = 2000  # from this step on, steps are not those of evaluations alone
_MISSING = 10  # saves before the first one
_SHOWN_DIGITS = 7  # of a learning rate, which is surely 0 if it has so many


@dataclass(frozen=True)
class Columns:
    """The contents of a history, by the names in its run, for the rules that watch it.

    finite: losses of training and evaluations, learning rates and gradient norms.
    scores: metrics that should rise: of evaluations, or of training where there are no others.
    measured: the kinds of those about the machine.
    coarse: whether a save stands for an epoch, or for as much as is between two evaluations.
    continues: whether it begins long after step 0, so that the start of the training is missing.
    finished: whether it was read to its end, and is not followed.
    """

    finite: tuple[str, ...]
    scores: tuple[str, ...]
    measured: frozenset[str]
    coarse: bool
    continues: bool = False
    finished: bool = False


def columns_of(
    scalars: Sequence[Scalar], counter: str, measured: Mapping[str, Measured], *, finished: bool
) -> Columns:
    """Return what a history has. ``counter`` says what counts its steps."""
    names = dict.fromkeys(scalar.name for scalar in scalars)
    unknown = {scalar.name for scalar in scalars if not math.isfinite(scalar.value)}
    scores = [name for name in names if is_score(name) and name not in unknown]
    evaluated = [name for name in scores if is_of_evaluation(name)]
    steps = {scalar.step for scalar in scalars}
    tested = {scalar.step for scalar in scalars if is_of_evaluation(scalar.name)}
    last = counter.rsplit(" and ", 1)[-1]
    fine = " and " in counter or not (is_epoch(last) or last == BY_ORDER)
    often = 2 * len(tested) >= len(steps) and max(steps, default=0) < _FINE_STEPS
    finite = [name for name in names if is_loss(name) or role_of(name) is not Role.METRIC]
    return Columns(
        tuple(map(with_phase_first, finite)),
        tuple(map(with_phase_first, evaluated or scores)),
        frozenset(column.kind for column in measured.values()),
        coarse=not fine or often,
        continues=_begins_late(sorted(steps)),
        finished=finished,
    )


def _begins_late(steps: Sequence[int]) -> bool:
    """Return whether there is room for many saves before the first one."""
    apart = [after - before for before, after in pairwise(steps)]
    return bool(apart) and steps[0] > _MISSING * median(apart)


def without_rounded_rates(scalars: Iterable[Scalar], roles: Mapping[str, Role]) -> Iterator[Scalar]:
    """Yield the scalars without learning rates that are 0 because they have few decimals."""
    digits: dict[str, int] = defaultdict(int)
    found = [*scalars]
    for scalar in found:
        if roles[scalar.name] is Role.LEARNING_RATE and math.isfinite(scalar.value):
            exponent = Decimal(repr(scalar.value)).normalize().as_tuple().exponent
            digits[scalar.name] = max(digits[scalar.name], -int(exponent))
    for scalar in found:
        if scalar.value or digits.get(scalar.name, _SHOWN_DIGITS) >= _SHOWN_DIGITS:
            yield scalar

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Annotated, Any, ClassVar

from tocsin.model import Reason, Role, Verdict
from tocsin.rules import Meta, Reads, Rule, State, Step, Tensor, register
from tocsin.rules._series import LOSSES, TRAINING, points
from tocsin.rules._verdicts import HEALTHY, UNDECIDED, measured, not_applicable, violation
from tocsin.rules._window import median_deviation, rounded
from tocsin.rules.data._inputs import INPUTS
from tocsin.rules.layers._spread import PREDICTIONS, rows, spread
from tocsin.rules.layers._units import activations, layer_units

_ROWS = 8  # fewer samples show no variation
_LATELY = 5  # saves whose median loss is compared
_ROSE = 1.5  # times the first loss


@register
@dataclass(frozen=True)
class DeadNetwork(Rule):
    """The network is dead: its output is the same for every input, and the loss does not improve.

    The output counts as constant if the standard deviation over the samples is at most the fraction
    ``rounding`` of its size, for all predictions with at least eight samples. If no such
    predictions are captured, all units of a ReLU layer must be zero for all samples. Fires when
    this holds in ``saves`` consecutive training saves, and the median of the last five losses is no
    lower than that of the first five, beyond noise. A last layer that starts at zero, a plateau,
    and a dead branch beside a living one do not fire. Ignores saves with identical samples.

    The finding says whether the output was constant from the first save on, before training could
    kill the network, and whether it is exactly 0, as after a ReLU. If it died with a loss that was
    half as large again as at first, the learning rate was too large.

    Parameters
    ----------
    rounding: largest relative standard deviation of a constant output.
    saves: number of consecutive saves with a constant output.

    Example: a learning rate of 3 kills all 64 units of a layer in its first steps, and from then on
    only the last bias learns.
    """

    options: ClassVar[Mapping[str, Any]] = {"resolve": 2}
    causes: ClassVar[str] = (
        "A learning rate that is far too high, an outlier, or initial biases far below zero have "
        "pushed all units of a layer into a region where they are constant. Their gradient is "
        "zero. Or the inputs do not reach the output, or a ReLU at the end clips it."
    )
    advice: ClassVar[str] = (
        "Constant from the first save on: look for what keeps the inputs from the output, such as "
        "the last step of a padded sequence, a wrong index or weights of 0. Exactly 0: leave out a "
        "ReLU at the end of the model. Otherwise start again with a lower learning rate, warm-up "
        "or gradient clipping, and He or Glorot initialisation."
    )

    rounding: Annotated[float, Meta(ge=0, lt=1)] = 1e-6
    saves: Annotated[int, Meta(ge=2 * _LATELY)] = 10

    def reads(self) -> Reads:
        outputs = activations(Role.ACTIVATION_OUTPUT, "relu", (0.0, None))
        return Reads(
            {"predictions": PREDICTIONS, "outputs": outputs, "losses": LOSSES, "inputs": INPUTS}
        )

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        if step.mode not in TRAINING:
            return state, not_applicable(Reason.NO_TENSOR, f"a step of mode {step.mode.name}")
        if _are_alike(step.tensors["inputs"]):
            return state, UNDECIDED
        seen = self._outputs(step) or _layers(step)
        if not seen:
            return state, not_applicable(Reason.NO_TENSOR, "no output and no ReLU with its units")
        losses = [point.value for point in points(step, step.tensors["losses"], "falls")]
        loss = rounded(fmean(losses)) if losses else None
        dead = [tensor for tensor, is_dead in seen if is_dead]
        if not dead or (len(dead) < len(seen) and seen[0][0].role is Role.PREDICTION):
            lives = {"lived": state.get("lived") is not False, "begun": state.get("begun", loss)}
            return lives, measured(HEALTHY, 0, self.saves)
        first, last = state.get("first", []), [*state.get("last", []), loss][-_LATELY:]
        saves = state.get("saves", 0) + 1
        first = [*first, loss] if len(first) < _LATELY else first
        lived = state.get("lived")  # None until it varies, or is constant for long enough
        if lived is None and saves >= self.saves:
            lived = False
        begun = state.get("begun") or 0.0
        after = {"saves": saves, "first": first, "last": last, "lived": lived, "begun": begun}
        if saves < self.saves:
            return after, measured(UNDECIDED, saves, self.saves)
        if _improves(first, last):
            return after, measured(HEALTHY, saves, self.saves)
        same = "0" if _is_zero(dead[0]) else "the same"
        since = f"in each of the last {saves} saves" if lived else "from the first save on"
        detail = f"{dead[0].name} is {same} for all samples {since}, and the loss does not improve"
        most = max((each for each in first if each is not None), default=0.0)
        if lived and 0 < _ROSE * begun < most:
            detail += (
                f"; it died as that rose from {begun:.3g} to {most:.3g}: the rate is too large"
            )
        found = violation(Reason.CONSTANT, detail, dead[0], saves=saves)
        return after, measured(found, saves, self.saves)

    def _outputs(self, step: Step) -> list[tuple[Tensor, bool]]:
        """Return the predictions, and whether each is the same for all samples."""
        found = []
        for tensor in step.tensors["predictions"]:
            known = spread(tensor) if rows(tensor) >= _ROWS else None
            if known is not None:
                found.append((tensor, known[0] <= self.rounding * known[1]))
        return found


def _is_zero(tensor: Tensor) -> bool:
    """Return whether all numbers of an output of the model are exactly 0."""
    return tensor.role is Role.PREDICTION and tensor.summary.min == 0 == tensor.summary.max


def _are_alike(inputs: Sequence[Tensor]) -> bool:
    """Return whether all samples are the same in all that is known of them, as where each begins
    with one and the same state."""
    found = [spread(tensor) for tensor in inputs if rows(tensor) >= _ROWS]
    return bool(found) and all(each is not None and each[0] == 0 for each in found)


def _layers(step: Step) -> list[tuple[Tensor, bool]]:
    """Return the layers of ReLUs, and whether all units of each are zero."""
    known = ((tensor, layer_units(tensor, 0.0)) for tensor in step.tensors["outputs"])
    return [
        (tensor, found.units >= _ROWS and found.inactive == found.units)
        for tensor, found in known
        if found is not None
    ]


def _improves(first: list[float | None], last: list[float | None]) -> bool:
    before, now = ([each for each in part if each is not None] for part in (first, last))
    if not before or not now:
        return False
    return median(now) < median(before) - max(median_deviation(first), median_deviation(last))

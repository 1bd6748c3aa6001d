from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

from tocsin.model import Detail, Reason, Role, Severity, Verdict
from tocsin.rules import PROFILES, Meta, Read, Reads, Rule, State, Step, Tensor, register
from tocsin.rules._series import LOSSES, TRAINING, points
from tocsin.rules._verdicts import HEALTHY, UNDECIDED, measured, not_applicable, violation
from tocsin.rules.layers._initial_weights import find_constant, find_large, find_wide

_LOW, _HIGH = 0.05, 0.95  # quantiles of Amazon's rule


@register
@dataclass(frozen=True)
class PoorWeightInitialization(Rule):
    """The initial weights are too large, too small or all the same, and the network cannot learn.

    Fires in the first ``steps`` saves when no loss has reached a new low for ``patience`` saves and
    one of two signs shows. Variances of the layers' activation inputs differ by more than the
    factor ``threshold`` (Glorot & Bengio 2010), or the range of most gradients is below
    ``distribution_range``. Also fires at the first save when more than half of the weights are
    constant, so all units of a layer stay the same. Or it fires when weight variance × connections
    (fan-in) is above ``gain`` in half of the weights; it is about 1 for Glorot and at most 2 for
    He. The severity is ``info``, or ``warning`` if half of the layers with a bias, and at least
    two, are above ``widest``.

    In profile ``sagemaker`` each of Amazon's three signs fires alone; its documents do not say how
    they combine, and give a ratio that cannot be above 1.

    Parameters
    ----------
    activation_inputs_regex: which tensors are activation inputs, instead of those with that role.
        Amazon's default matches the names of MXNet only. If you set a pattern, outputs are not
        read.
    threshold: largest ratio of variances.
    distribution_range: smallest range of gradients, in their units.
    patience: saves without a new low of the loss.
    steps: number of first saves that are judged.
    gain: largest variance of weights times connections.
    widest: the same for layers with a bias.
    any_of: each sign fires alone, and weights themselves are not judged.

    Example: all weights start at 0, or are drawn with a standard deviation of 1.
    """

    sagemaker: ClassVar[Mapping[str, Any]] = {
        "activation_inputs_regex": (".*relu_input",),
        "threshold": 10.0,
        "distribution_range": 0.001,
        "any_of": True,
    }
    profiles: ClassVar[tuple[str, ...]] = PROFILES
    severity: ClassVar[Severity] = Severity.INFO
    causes: ClassVar[str] = (
        "Weights start at zero or another constant, so all units of a layer compute the same and "
        "stay the same. Or their variance does not suit the number of connections and the "
        "activation, and signals grow or fade from layer to layer."
    )
    advice: ClassVar[str] = (
        "Draw weights at random with a variance of 2/inputs for ReLU (He) or "
        "2/(inputs + outputs) for tanh and sigmoid (Glorot); or use normalisation layers."
    )

    activation_inputs_regex: tuple[str, ...] = ()
    threshold: Annotated[float, Meta(ge=1)] = 1000.0
    distribution_range: Annotated[float, Meta(ge=0)] = 1e-8
    patience: Annotated[int, Meta(ge=1)] = 5
    steps: Annotated[int, Meta(ge=1)] = 10
    gain: Annotated[float, Meta(gt=0)] = 300.0
    widest: Annotated[float, Meta(gt=0)] = 40.0
    any_of: bool = False

    def reads(self) -> Reads:
        inputs = Read(roles=(Role.ACTIVATION_INPUT,), fields=("variance",))
        reads = {
            "inputs": inputs.explicitly((), self.activation_inputs_regex),
            "outputs": Read(roles=(Role.ACTIVATION_OUTPUT,), fields=("variance",)),
            "gradients": Read(
                roles=(Role.GRADIENT,),
                fields=("size", "variance"),
                detail=Detail(quantiles=(_LOW, _HIGH)) if self.any_of else None,
            ),
            "losses": LOSSES,
            "weights": Read(roles=(Role.WEIGHT,), fields=("size", "mean", "variance")),
            "biases": Read(roles=(Role.BIAS,), fields=("size",)),
        }
        if self.activation_inputs_regex not in ((), self.sagemaker["activation_inputs_regex"]):
            del reads["outputs"]  # a user named the inputs: outputs do not replace them
        return Reads(reads)

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        if step.mode not in TRAINING or not any(step.tensors.values()):
            return state, not_applicable(
                Reason.NO_TENSOR, "no weights, gradients or activation inputs"
            )
        saves = state.get("saves", 0) + 1
        if saves > self.steps:
            return state, UNDECIDED
        lows = _lows(state.get("lows", {}), step)
        weights, begun = step.tensors["weights"], state.get("begun", False)
        signs = {"variances": self._variances(step), "ranges": self._ranges(step)}
        # A sign that comes later has another cause than the initial weights.
        healthy = {name for name, sign in signs.items() if sign and not sign.violation}
        fine = sorted(healthy.union(state.get("fine", ())))
        stuck = self._stuck(step, lows)
        if self.any_of:
            found = [*signs.values(), stuck]
        else:
            lasting = [sign for name, sign in signs.items() if name not in fine]
            found = [] if begun else self._judge_weights(step)
            found += [_both(sign, stuck) for sign in lasting if sign and stuck]
        state = {"saves": saves, "lows": lows, "begun": begun or bool(weights), "fine": fine}
        usual = next((sign for sign in signs.values() if sign and not sign.violation), HEALTHY)
        return state, next((sign for sign in found if sign and sign.violation), usual)

    def _judge_weights(self, step: Step) -> list[Verdict | None]:
        weights, biases = step.tensors["weights"], step.tensors["biases"]
        return [
            find_constant(weights),
            find_wide(weights, biases, self.widest),
            find_large(weights, self.gain),
        ]

    def _variances(self, step: Step) -> Verdict | None:
        """Return sign (a) or HEALTHY, None if there are no two layers to compare."""
        inputs, outputs = (
            self._known((tensor.summary.variance, tensor) for tensor in step.tensors.get(read, ()))
            for read in ("inputs", "outputs")
        )
        known = inputs or outputs
        if len(known) < 2:
            return None
        (smallest, narrow), (largest, wide) = known[0], known[-1]
        if largest <= self.threshold * smallest:
            return measured(HEALTHY, largest / smallest if smallest else 1.0, self.threshold)
        ratio = largest / smallest if smallest else math.inf
        detail = (
            f"variance {largest:.3g} of {wide.name} is {ratio:.3g} times the {smallest:.3g} of "
            f"{narrow.name}"
        )
        found = violation(Reason.IMBALANCED, detail, wide, ratio=ratio, threshold=self.threshold)
        return measured(found, ratio, self.threshold)

    def _ranges(self, step: Step) -> Verdict | None:
        """Return sign (b) or HEALTHY, None if no gradient has a range."""
        known = self._known((_range(tensor), tensor) for tensor in step.tensors["gradients"])
        if not known:
            return None
        width, tensor = known[0 if self.any_of else len(known) // 2]
        if width >= self.distribution_range:
            return measured(HEALTHY, width, self.distribution_range, "below")
        which = "" if self.any_of else "more than half of the gradients, such as "
        limit = self.distribution_range
        detail = f"{which}{tensor.name}: a range of {width:.3g} is below {limit:g}"
        evidence = {"range": width, "distribution_range": limit}
        found = violation(Reason.BELOW_THRESHOLD, detail, tensor, **evidence)
        return measured(found, width, limit, "below")

    def _known(self, found: Iterable[tuple[float | None, Tensor]]) -> list[tuple[float, Tensor]]:
        """Return the known sizes in ascending order, with zeros only if ``any_of``.

        A layer that starts at zero has constant outputs and passes no gradient at first, so zeros
        prove nothing.
        """
        known = [(size, tensor) for size, tensor in found if size or (size == 0 and self.any_of)]
        return sorted(known, key=lambda pair: pair[0])

    def _stuck(self, step: Step, lows: Mapping[str, tuple[float | None, int]]) -> Verdict | None:
        """Return sign (c) at a step with a loss, else None."""
        age = min((age for _, age in lows.values()), default=0)
        if age < self.patience or not step.tensors["losses"]:
            return None
        tensor = step.tensors["losses"][0]
        detail = f"{tensor.name} has reached no new low in {age} saves"
        return violation(Reason.NOT_DECREASING, detail, tensor, saves=age, patience=self.patience)


def _both(sign: Verdict, stuck: Verdict) -> Verdict:
    return replace(sign, detail=f"{sign.detail}; {stuck.detail}")


def _lows(
    before: Mapping[str, tuple[float | None, int]], step: Step
) -> dict[str, tuple[float | None, int]]:
    """Return the lowest value of each loss so far, and how many saves ago it was."""
    lows = dict(before)
    for point in points(step, step.tensors["losses"], "falls"):
        low, age = lows.get(point.key, (None, -1))
        new = math.isfinite(point.cost) and (low is None or point.cost < low)
        lows[point.key] = (point.cost, 0) if new else (low, age + 1)
    return lows


def _range(gradient: Tensor) -> float | None:
    """Return the range from the 5th to the 95th percentile, or the standard deviation."""
    summary = gradient.summary
    if summary.size == 1:
        return None
    known = summary.quantiles or {}
    low, high = known.get(str(_LOW)), known.get(str(_HIGH))
    if low is not None and high is not None:
        return high - low
    return None if summary.variance is None else math.sqrt(summary.variance)

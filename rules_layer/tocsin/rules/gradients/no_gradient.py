from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from tocsin.model import Reason, Role, Verdict
from tocsin.rules import Meta, Read, Reads, Rule, State, Step, Tensor, register
from tocsin.rules._series import TRAINING
from tocsin.rules._verdicts import HEALTHY, UNDECIDED, measured, not_applicable, violation
from tocsin.rules._window import rounded

_MOST_GROUPS = 8  # of gradients that are saved together
_NAME = 80  # characters of a worker and a gradient
_RISEN = 2.0  # times the first loss: a step that was too long has switched the units off


@register
@dataclass(frozen=True)
class NoGradient(Rule):
    """All gradients are exactly zero although the loss is not: the model no longer learns.

    Gradients of the same step are judged together, so optimizers that take turns are judged
    separately. Fires when all of them were zero in ``saves`` consecutive saves, and a loss of the
    same step was not, or was always zero. A loss that has become zero, such as a satisfied margin,
    has no gradient either. Names the learning rate if the loss is more than twice the first one.

    Parameters
    ----------
    saves: number of consecutive saves without a gradient.

    Example: an agent's actions are a tanh of 300, so its policy gets no gradient, while the critic
    learns.
    """

    options: ClassVar[Mapping[str, Any]] = {"resolve": 3}
    causes: ClassVar[str] = (
        "All units of a layer are dead or saturated, because weights, inputs or a first update "
        "were too large. Or the gradient is multiplied by zero or clipped to it. Or the loss does "
        "not depend on the parameters, as a cross-entropy over a single class."
    )
    advice: ClassVar[str] = (
        "Look at the outputs of each layer for one batch: ReLUs that are all 0, tanh and sigmoid "
        "at their limits. Normalise inputs, use the default initialisation, and lower the learning"
        " rate."
    )

    saves: Annotated[int, Meta(ge=1)] = 10

    def reads(self) -> Reads:
        gradients = Read(roles=(Role.GRADIENT,), fields=("abs_mean", "size"))
        losses = Read(roles=(Role.LOSS,), fields=("abs_mean",))
        rates = Read(roles=(Role.LEARNING_RATE,), fields=("mean",))
        return Reads(
            {"gradients": gradients, "losses": losses, "rates": rates},
            needs=("gradients", "losses"),
        )

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        if step.mode not in TRAINING:
            return state, not_applicable(Reason.NO_TENSOR, f"a step of mode {step.mode.name}")
        gradients = [each for each in step.tensors["gradients"] if each.summary.size]
        sizes = [each.summary.abs_mean for each in step.tensors["losses"]]
        always_zero = state.get("loss", 0.0) == 0 and not any(sizes) and 0 in sizes
        if not gradients or not (any(sizes) or always_zero):
            return state, not_applicable(Reason.NO_TENSOR, "no gradient with a loss other than 0")
        first = gradients[0]
        key = f"{first.worker}/{first.name}"[-_NAME:]
        groups = dict(state.get("groups", {}))
        if any(each.summary.abs_mean != 0 for each in gradients):
            groups.pop(key, None)
        elif key in groups or len(groups) < _MOST_GROUPS:
            groups[key] = groups.get(key, 0) + 1
        loss = sum(size or 0.0 for size in sizes)
        state = {"groups": groups, "loss": state.get("loss") or rounded(loss)}
        how = ", as was the loss" if always_zero else ", although the loss was not"
        how += _risen(state["loss"], loss, step)
        return state, self._judged(groups, first, how)

    def _judged(self, groups: Mapping[str, int], tensor: Tensor, how: str) -> Verdict:
        """Judge the group that was zero in most saves, also at a save of another one."""
        key = max(groups, key=lambda of: groups[of], default="")
        zeros = groups.get(key, 0)
        if zeros < self.saves:
            return measured(HEALTHY, zeros, self.saves) if not zeros else UNDECIDED
        detail = f"all gradients saved with {key} were 0 in {zeros} consecutive saves{how}"
        found = violation(Reason.BELOW_THRESHOLD, detail, tensor, saves=zeros)
        return measured(found, zeros, self.saves)


def _risen(first: float | None, now: float, step: Step) -> str:
    """Describe a loss that has risen far above the first one, with its learning rate."""
    if first is None or not 0 < _RISEN * first < now:
        return ""
    rates = [each.summary.mean for each in step.tensors.get("rates", ()) if each.summary.mean]
    rate = f"the learning rate of {max(rates):.3g}" if rates else "the learning rate"
    return f"; the loss rose from {first:.3g} to {now:.3g}: {rate} is too large"

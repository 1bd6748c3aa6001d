from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from tocsin.model import Reason, Role, Verdict
from tocsin.rules import Meta, Read, Reads, Rule, State, Step, Tensor, register, tensor_key
from tocsin.rules._series import TRAINING
from tocsin.rules._verdicts import HEALTHY, UNDECIDED, measured, not_applicable, violation
from tocsin.rules.gradients._updates import base_name, gradient_norms

_SMALL = 1e-3  # of the largest gradient: an update by less may be lost in rounding

_WithGradient = tuple[float, Tensor]
"""The norm of a gradient, and its weight."""


@register
@dataclass(frozen=True)
class FrozenParameters(Rule):
    """A weight gets gradients but has never changed, or all weights have stopped changing.

    Fires when a weight with at least two dimensions has never changed in ``patience`` saves in
    which its gradient was above a thousandth of the largest one and others changed. Also fires when
    no weight has changed in that many saves and in ``accumulation`` steps: the optimizer does not
    step, or its rate is 0. If the gradient is the same in two saves and the loss differs between
    them, weights swing between two values and are not judged. A weight has changed if its update
    since the last save is not zero or, without updates, if its fingerprint differs. While others
    change, ignores weights that changed once, weights frozen on purpose (they get no gradient), and
    any weight where a learning rate is 0. A gradient belongs to the weight whose name ends its own
    name (``gradient/NAME``, ``NAME.grad``, ``gradients/NAMEGrad``).

    Parameters
    ----------
    patience: number of saves without a change.
    accumulation: steps in which gradients may be accumulated before the weights change.

    Example: the optimizer was created before a new head was added to the model.
    """

    options: ClassVar[Mapping[str, Any]] = {"resolve": 5}
    causes: ClassVar[str] = (
        "The parameter was never given to the optimizer, or was replaced after the optimizer was "
        "created; optimizer.step() is not called; the schedule has set the learning rate to 0; or "
        "rounding loses the updates."
    )
    advice: ClassVar[str] = (
        "Compare the optimizer's parameters with the model's, and create the optimizer after the "
        "model is complete. If all weights have stopped changing, check the schedule. If this "
        "layer is frozen on purpose, switch its gradient off (requires_grad=False "
        "in PyTorch, trainable=False in Keras), which also saves time."
    )

    patience: Annotated[int, Meta(ge=1)] = 10
    accumulation: Annotated[int, Meta(ge=0)] = 64

    def reads(self) -> Reads:
        weights = Read(roles=(Role.WEIGHT, Role.BIAS), fields=("update_l2",), back=1)
        return Reads(
            {
                "weights": weights,
                "gradients": Read(roles=(Role.GRADIENT,), fields=("l2",)),
                "rates": Read(roles=(Role.LEARNING_RATE,), fields=("mean",)),
                "intervals": Read(roles=(Role.INTERVAL,), fields=("min", "max")),
            },
            needs=("weights",),
        )

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        if step.mode not in TRAINING:
            return state, not_applicable(Reason.NO_TENSOR, f"a step of mode {step.mode.name}")
        gradients = gradient_norms(step)
        if not gradients:
            return state, not_applicable(Reason.NO_TENSOR, "no gradient that belongs to a weight")
        known = [
            (weight, changed)
            for weight in step.tensors["weights"]
            if (changed := _changed(weight)) is not None
        ]
        judged = [(weight, changed) for weight, changed in known if _is_judged(weight)]
        least = max(gradients.values()) * _SMALL
        unchanged = [
            (norm, weight)
            for weight, changed in judged
            if not changed
            and (norm := gradients.get((weight.worker, base_name(weight.name)), 0.0)) > least
        ]
        if any(changed for _, changed in known):
            begins_later = any(each.summary.mean == 0 for each in step.tensors["rates"])
            return (
                self._judge_weights(_counts(state, judged), [] if begins_later else unchanged)
                if judged
                else (state, UNDECIDED)
            )
        norms = sum(gradients.values())
        swing = norms == state.get("norms") and any(
            each.summary.min != each.summary.max for each in step.tensors["intervals"]
        )
        state = {**state, "norms": norms}
        judges = unchanged and not swing
        return self._judge_all(state, step, unchanged) if judges else (state, UNDECIDED)

    def _judge_weights(
        self, counts: dict[str, int], unchanged: list[_WithGradient]
    ) -> tuple[State, Verdict]:
        """Judge weights that have never changed, at a save at which others change."""
        frozen = []
        for norm, weight in unchanged if counts else ():
            if (key := tensor_key(weight)) in counts:
                counts[key] += 1
                if counts[key] >= self.patience:
                    frozen.append((norm, weight, counts[key]))
        if not frozen:
            most = max(counts.values(), default=0)
            return {"counts": counts}, measured(HEALTHY, most, self.patience)
        norm, weight, count = max(frozen, key=lambda item: item[0])
        others = f" (1 of {len(frozen)} such weights)" if len(frozen) > 1 else ""
        detail = (
            f"{weight.name} has not changed in {count} saves{others}, though its gradient's norm "
            f"is {norm:.3g} and other weights change"
        )
        evidence = {"saves": count, "gradient": norm, "weights": len(frozen)}
        found = violation(Reason.CHANGED_TOO_LITTLE, detail, weight, **evidence)
        return {"counts": counts}, measured(found, count, self.patience)

    def _judge_all(
        self, state: State, step: Step, unchanged: list[_WithGradient]
    ) -> tuple[State, Verdict]:
        """Judge a save at which no weight has changed."""
        saves, since = state.get("still", 0) + 1, state.get("since", step.mode_step)
        state = {**state, "still": saves, "since": since}
        if saves < self.patience or step.mode_step - since < self.accumulation:
            return state, UNDECIDED
        norm, weight = max(unchanged, key=lambda item: item[0])
        detail = (
            f"no weight has changed in {saves} saves, though the norm of the gradient of "
            f"{weight.name} is {norm:.3g}"
        )
        evidence = {"saves": saves, "gradient": norm, "weights": len(unchanged)}
        found = violation(Reason.CHANGED_TOO_LITTLE, detail, weight, **evidence)
        return state, measured(found, saves, self.patience)


def _counts(state: State, judged: list[tuple[Tensor, bool]]) -> dict[str, int]:
    """Return in how many saves each weight, by its key, should have changed but never did.

    Weights that came later than the first save are ignored.
    """
    if "counts" not in state:
        return {tensor_key(weight): 0 for weight, changed in judged if not changed}
    counts = dict(state["counts"])
    for weight, changed in judged if counts else ():
        if changed:
            counts.pop(tensor_key(weight), None)
    return counts


def _changed(weight: Tensor) -> bool | None:
    """Return whether a weight differs from its last save; None if that is not known."""
    if weight.summary.update_l2 is not None:
        return weight.summary.update_l2 > 0
    now = weight.summary.fingerprint
    before = weight.previous[0].summary.fingerprint if weight.previous else None
    return None if now is None or before is None else now != before


def _is_judged(weight: Tensor) -> bool:
    return weight.role is not Role.BIAS and (weight.shape is None or len(weight.shape) > 1)

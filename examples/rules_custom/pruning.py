"""A custom rule: fires when an iterative pruning has gone far enough."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from tocsin.model import Reason, Role, Verdict
from tocsin.rules import (
    HEALTHY,
    UNDECIDED,
    Meta,
    Read,
    Reads,
    Rule,
    State,
    Step,
    Tensor,
    measured,
    not_applicable,
    register,
    violation,
)


@register
@dataclass(frozen=True)
class PruningDone(Rule):
    """Pruning has gone far enough: accuracy has dropped, or the model is small enough.

    With action ``stop`` the last model before that is the one to keep.

    Parameters
    ----------
    min_accuracy: fires when accuracy is below it, once it was reached.
    max_drop: fires when accuracy is by more than this below its best; 0: no bound.
    max_weights: fires when no more weights than this are not zero; 0: no bound.
    accuracy_regex: the name of the tensor with the accuracy.
    """

    min_accuracy: Annotated[float, Meta(ge=0, le=1)] = 0.9
    max_drop: Annotated[float, Meta(ge=0, le=1)] = 0.0
    max_weights: Annotated[int, Meta(ge=0)] = 0
    accuracy_regex: tuple[str, ...] = ("accuracy",)

    def reads(self) -> Reads:
        accuracy = Read(regex=self.accuracy_regex, fields=("mean",))
        return Reads(
            {
                "accuracy": accuracy,
                "weights": Read(roles=(Role.WEIGHT,), fields=("size", "zeros")),
            }
        )

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        accuracies, weights = step.tensors["accuracy"], step.tensors["weights"]
        if not accuracies and not weights:
            return state, not_applicable(Reason.NO_TENSOR, "neither accuracy nor weights")
        verdict = self._size(weights)
        for tensor in accuracies:
            accuracy = tensor.summary.mean
            if accuracy is None:
                continue
            best = max(accuracy, state.get("best", 0.0))
            least = max(self.min_accuracy, best - self.max_drop if self.max_drop else 0.0)
            state = {"best": best}
            if accuracy < least <= best:
                detail = f"accuracy {accuracy:.3f} is below {least:g}"
                found = violation(Reason.BELOW_THRESHOLD, detail, tensor, accuracy=accuracy)
                return state, measured(found, accuracy, least, "below")
            if verdict is UNDECIDED:
                verdict = measured(HEALTHY, accuracy, least, "below")
        return state, verdict

    def _size(self, weights: tuple[Tensor, ...]) -> Verdict:
        """Judges the number of weights that are not zero; all workers have the same ones."""
        own = [tensor for tensor in weights if tensor.worker == weights[0].worker]
        known = [
            tensor.summary.size - tensor.summary.zeros
            for tensor in own
            if tensor.summary.size is not None and tensor.summary.zeros is not None
        ]
        if not known or len(known) < len(own) or not self.max_weights:
            return UNDECIDED
        if sum(known) > self.max_weights:
            return HEALTHY
        detail = f"{sum(known)} weights are not zero, {self.max_weights} is small enough"
        return violation(Reason.BELOW_THRESHOLD, detail, own[0], weights=sum(known))

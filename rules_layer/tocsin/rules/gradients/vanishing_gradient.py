from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from tocsin.model import Reason, Role, Verdict
from tocsin.rules import (
    PROFILES,
    Meta,
    Read,
    Reads,
    Rule,
    State,
    Step,
    Tensor,
    register,
    tensor_key,
)
from tocsin.rules._verdicts import HEALTHY, measured, not_applicable, violation

_LEFT_OUT = re.compile(r"bias|beta|lora_?a", re.IGNORECASE)
_HIDDEN = re.compile(r"weight_hh(?![a-z])|recurrent_kernel")  # multiplied by the last state
_EXPERT = re.compile(r"experts?(?![a-z])", re.IGNORECASE)
_ZEROS = 8  # saves in a row: a small batch may leave all units of a layer off
_MOST_ZEROS = 64  # zero gradients that are followed
_ALONE = 1e-7  # least mean of a gradient without others, and of all in profile sagemaker


@register
@dataclass(frozen=True)
class VanishingGradient(Rule):
    """Gradients of a layer have become too small to learn from.

    Fires when the mean of |g| of a gradient is below ``share`` of the largest such mean of the
    worker; if there is only one gradient, below 1e-7. A ``threshold`` replaces both limits. It must
    hold in three consecutive saved steps in profile ``recommended``, and in eight for gradients of
    exactly 0: a small batch may switch off all units of a layer. The scale of the loss does not
    matter. Ignores gradients of biases and single numbers unless you select them, of LoRA's A, of
    idle experts in a mixture, and of a recurrent layer's state in a series of one step.
    ExplodingTensor reports gradients without a finite element.

    Parameters
    ----------
    threshold: least mean of |g|, in units of the gradient; replaces ``share``.
    share: least mean of |g|, as a share of the largest.
    zeros: true includes zeros in the mean; none or false ignores them if there are other elements,
        since a batch uses few rows of a large embedding.
    collection_names, tensor_regex: which tensors to watch instead of those with role gradient.

    Example: a network has ten sigmoid layers, and the first one gets gradients of 3e-9.
    """

    options: ClassVar[Mapping[str, Any]] = {"for_steps": 3, "resolve": 20}
    sagemaker: ClassVar[Mapping[str, Any]] = {"zeros": True, "threshold": _ALONE}
    profiles: ClassVar[tuple[str, ...]] = PROFILES
    causes: ClassVar[str] = (
        "Each layer multiplies the gradient by its weights and the slope of its activation. If "
        "many of these are below one, the gradient vanishes in the first layers. Units that are "
        "saturated or dead have a slope of zero."
    )
    advice: ClassVar[str] = (
        "Use ReLU-like activations, residual connections or normalisation layers, and an "
        "initialisation that suits the activation (He for ReLU, Glorot for tanh)."
    )

    threshold: Annotated[float, Meta(gt=0)] | None = None
    share: Annotated[float, Meta(gt=0, lt=1)] = 1e-6
    zeros: bool | None = None
    collection_names: tuple[str, ...] = ()
    tensor_regex: tuple[str, ...] = ()

    def reads(self) -> Reads:
        read = Read(roles=(Role.GRADIENT,), fields=("abs_mean", "size", "zeros"))
        return Reads({"gradients": read.explicitly(self.collection_names, self.tensor_regex)})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        known = [
            (mean, tensor)
            for tensor in step.tensors["gradients"]
            if (mean := self._mean(tensor)) is not None and self._judges(tensor)
        ]
        known = _without_idle_experts(known)
        if self.threshold is None:
            known = [each for each in known if each[0] or not _HIDDEN.search(each[1].name)]
        judged = [each for each in known if not self._is_number(each[1])]
        state = _zeros(state, judged) if self.threshold is None and len(known) > 1 else state
        if not judged:
            return state, not_applicable(Reason.NO_TENSOR, "no gradient with a finite mean")
        limits = self._limits(known)
        ratio, mean, tensor = min(
            (
                (mean / limit if limit and not _is_brief(state, tensor) else math.inf, mean, tensor)
                for mean, tensor in judged
                for limit in [limits[tensor.worker]]
            ),
            key=lambda each: each[0],
        )
        limit = limits[tensor.worker]
        if ratio >= 1:
            return state, measured(HEALTHY, mean, limit, "below")
        shown = f"the threshold {limit:g}"
        if limit not in (self.threshold, _ALONE):
            shown = f"{self.share:g} of the largest ({limit / self.share:.2g})"
        detail = f"the mean |gradient| of {tensor.name} is {mean:.2g}, below {shown}"
        found = violation(Reason.BELOW_THRESHOLD, detail, tensor, abs_mean=mean, threshold=limit)
        return state, measured(found, mean, limit, "below")

    def _limits(self, known: Sequence[tuple[float, Tensor]]) -> Mapping[str, float]:
        """Return by worker the least mean of |g| that is healthy, in units of the gradient."""
        means: dict[str, list[float]] = defaultdict(list)
        for mean, tensor in known:
            means[tensor.worker].append(mean)
        return {worker: self._limit(found) for worker, found in means.items()}

    def _limit(self, means: Sequence[float]) -> float:
        if self.threshold is not None:
            return self.threshold
        return self.share * max(means) if len(means) > 1 else _ALONE

    def _mean(self, tensor: Tensor) -> float | None:
        summary = tensor.summary
        if self.zeros or not (summary.abs_mean and summary.size and summary.zeros):
            return summary.abs_mean
        return summary.abs_mean * summary.size / max(1, summary.size - summary.zeros)

    def _judges(self, tensor: Tensor) -> bool:
        return self._selected or _LEFT_OUT.search(tensor.name) is None

    def _is_number(self, tensor: Tensor) -> bool:
        """Return whether it is a single number: others are compared with it, but it is not
        judged."""
        return tensor.summary.size == 1 and self.threshold is None and not self._selected

    @property
    def _selected(self) -> bool:
        return bool(self.collection_names or self.tensor_regex)


def _zeros(state: State, known: Sequence[tuple[float, Tensor]]) -> State:
    """Count for each gradient that is 0 in how many saves in a row it was."""
    zeros = [tensor_key(tensor) for mean, tensor in known if not mean][:_MOST_ZEROS]
    return {key: min(state.get(key, 0) + 1, _ZEROS) for key in zeros}


def _is_brief(state: State, tensor: Tensor) -> bool:
    """Return whether a gradient is 0, but not for long."""
    return 0 < int(state.get(tensor_key(tensor), 0)) < _ZEROS


def _without_idle_experts(known: list[tuple[float, Tensor]]) -> list[tuple[float, Tensor]]:
    experts = [mean for mean, tensor in known if _EXPERT.search(tensor.name)]
    if not any(experts):
        return known
    return [each for each in known if each[0] > 0 or not _EXPERT.search(each[1].name)]

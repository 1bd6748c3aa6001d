"""VanishingGradient."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from tocsin.model import Reason, Role, Verdict
from tocsin.rules import (
    HEALTHY,
    PROFILES,
    Meta,
    Read,
    Reads,
    Rule,
    State,
    Step,
    Tensor,
    not_applicable,
    register,
    violation,
)

_LEFT_OUT = re.compile(r"bias|beta|lora_?a", re.IGNORECASE)


@register
@dataclass(frozen=True)
class VanishingGradient(Rule):
    """Gradients of a layer have become too small to learn from.

    Fires when the mean of |g| of a gradient tensor is below ``threshold``. Reports the smallest.
    In profile ``recommended`` three saved steps in a row must show it, so one odd batch does not
    count. Gradients of biases (known by their names) count only if they are selected: they are
    tiny where the targets' mean is zero. The same holds for those of LoRA's A, which are
    multiplied by a B that begins at zero. Gradients without a finite element are left to
    ExplodingTensor. Empty tensors are ignored.

    Parameters
    ----------
    threshold: least mean of |g|, in units of the gradient.
    zeros: true counts zeros, too; none ignores them if there are other elements, as a batch touches
        few rows of a large embedding.
    collection_names, tensor_regex: which tensors to watch instead of those with role gradient.

    Example: ten sigmoid layers, of which the first gets gradients of 3e-9.
    """

    options: ClassVar[Mapping[str, Any]] = {"for_steps": 3}
    sagemaker: ClassVar[Mapping[str, Any]] = {"zeros": True}
    profiles: ClassVar[tuple[str, ...]] = PROFILES
    causes: ClassVar[str] = (
        "Each layer multiplies the gradient by its weights and the slope of its activation: many "
        "layers with slopes or weights below one leave nothing for the first ones. Units that are "
        "saturated or dead have no slope at all."
    )
    advice: ClassVar[str] = (
        "Use ReLU-like activations, residual connections or normalisation layers, and an "
        "initialisation that suits the activation (He for ReLU, Glorot for tanh)."
    )

    threshold: Annotated[float, Meta(gt=0)] = 1e-7
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
        if not known:
            return state, not_applicable(Reason.NO_TENSOR, "no gradient with a finite mean")
        mean, tensor = min(known, key=lambda pair: pair[0])
        if mean >= self.threshold:
            return state, HEALTHY
        detail = (
            f"mean |gradient| {mean:.2g} of {tensor.name} is below threshold {self.threshold:g}"
        )
        evidence = {"abs_mean": mean, "threshold": self.threshold}
        return state, violation(Reason.BELOW_THRESHOLD, detail, tensor, **evidence)

    def _mean(self, tensor: Tensor) -> float | None:
        summary = tensor.summary
        if self.zeros or not (summary.abs_mean and summary.size and summary.zeros):
            return summary.abs_mean
        return summary.abs_mean * summary.size / max(1, summary.size - summary.zeros)

    def _judges(self, tensor: Tensor) -> bool:
        named = bool(self.collection_names or self.tensor_regex)
        return named or _LEFT_OUT.search(tensor.name) is None

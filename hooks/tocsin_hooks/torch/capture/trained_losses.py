"""Recognises the loss functions of training in evaluations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from tocsin_hooks.torch.calls.loss_call import LossCall
from tocsin_hooks.torch.capture.origin import call_of, mark_call

_MEAN = "mean"


@dataclass(frozen=True)
class _Trained:
    """``name``: what its loss is saved as; ``multiple``: of the mean that the function gives, None
    where it is that mean."""

    name: str
    multiple: Any
    module: str | None = None
    reduction: str = _MEAN


class TrainedLosses:
    """Converts the result of a loss function in an evaluation to the scale of the training loss.

    That may be a multiple of what the function gave, as where it is divided by the number of passes
    between two updates; and evaluations often sum up what training averages.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], _Trained] = {}

    def called(self, call: LossCall) -> None:
        """Record a loss function that training calls."""
        key, reduction = _key(call), call.arguments.get("reduction", _MEAN)
        if call.module is not None:
            name = f"{call.module}_output_0"
            sums = reduction == "sum"
            multiple = _multiple(call.value.detach(), _mean(call)) if sums else None
            self._known[key] = _Trained(name, multiple, call.module, reduction)
        elif isinstance(call.value, torch.Tensor):
            mark_call(call.value, (key, _mean(call)))

    def differentiated(self, loss: Any, value: Any, name: str, *, more: bool = False) -> None:
        """Gradients are computed of ``loss``, which is saved as ``name`` with that ``value``;
        ``more``: which is added to those of earlier passes."""
        found = call_of(loss)
        if found is None:
            return
        (key, mean), is_same = found
        same = is_same and bool(mean.data_ptr() == value.data_ptr())
        multiple = None if same else _multiple(value.detach().mean(), mean)
        before = self._known.get(key) if more else None
        if before is not None:
            parts = (1.0 if each is None else each for each in (before.multiple, multiple))
            multiple = sum(parts)
        self._known[key] = _Trained(name, multiple)

    def evaluated(self, call: LossCall) -> tuple[str, Any] | None:
        """Return the name and the value of a loss in an evaluation; None where its module is
        captured, or training does not have it."""
        known = self._known.get(_key(call))
        if known is None or not isinstance(call.value, torch.Tensor):
            return None
        reduction = call.arguments.get("reduction", _MEAN)
        same = call.module == known.module and reduction == known.reduction
        if call.module is not None and same and reduction != "sum":
            return None
        mean = _mean(call)
        return known.name, mean if known.multiple is None else mean * known.multiple


def _key(call: LossCall) -> tuple[str, int]:
    return call.name, call.prediction.dim()


def _multiple(value: Any, mean: Any) -> Any:
    return torch.where(mean == 0, 1.0, value / mean)


def _mean(call: LossCall) -> Any:
    value = call.value.detach()
    if call.arguments.get("reduction", _MEAN) == "sum":
        with torch.no_grad():
            # Of kl_div PyTorch warns that its mean is not the divergence's.
            reduction = "none" if call.name == "kl_div" else _MEAN
            value = call.function(**{**call.arguments, "reduction": reduction}).detach()
    return value.mean() if value.dim() else value

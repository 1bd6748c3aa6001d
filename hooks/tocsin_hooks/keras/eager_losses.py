"""The losses of a batch of Keras, as PyTorch's functions compute them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - everybody calls it so

from tocsin_hooks.keras.losses import CompiledLoss, compiled_losses
from tocsin_hooks.script_line import script_line
from tocsin_hooks.torch.calls.loss_call import LossCall

_LEAST = 1e-7  # of a probability, as Keras cuts it

Arguments = Mapping[str, Any]


@dataclass(frozen=True)
class OtherLoss:
    """A loss that PyTorch has no function for, with its labels and one output of the model.

    It is computed again with the output changed.
    """

    function: Callable[[Any, Any], Any]
    target: Any
    outputs: list[Any]
    output: str

    @property
    def value(self) -> Any:
        return self.of(self.target, self.outputs[0].detach())

    @property
    def compares_labels(self) -> bool:
        """Return whether there are several labels, and the loss depends on them."""
        target = self.target
        if not target.is_floating_point() or bool((target == target[:1]).all()):
            return False
        return bool(self.of(target + 1, self.outputs[0].detach()) != self.value)

    def replay(self, loss: Any, changed: Callable[[Any], Any], of: Any) -> Any:
        return self.of(self.target, changed(self.outputs[0].detach()))

    def of(self, target: Any, output: Any) -> Any:
        """Return the loss of these labels and predictions; nothing else changes by that."""
        with _without_effect(output.device):
            return torch.as_tensor(self.function(target, output)).detach().mean()


@contextmanager
def _without_effect(device: Any) -> Iterator[None]:
    """Restore variables of Keras and random states afterwards."""
    numbers, arrays = random.getstate(), np.random.get_state()
    with ExitStack() as stack:
        stack.callback(random.setstate, numbers)
        stack.callback(np.random.set_state, arrays)
        devices = [device] if device.type == "cuda" else []
        stack.enter_context(torch.random.fork_rng(devices=devices))
        stack.enter_context(keras.StatelessScope())
        stack.enter_context(torch.no_grad())
        yield


def batch_losses(model: Any, labels: Any, predictions: Any) -> Iterator[LossCall | OtherLoss]:
    """Yield the losses that a model was compiled with, of a batch, but for those with a state."""
    for each in compiled_losses(model):
        target, prediction = each.of(labels), each.of(predictions)
        if isinstance(target, torch.Tensor) and isinstance(prediction, torch.Tensor):
            found = _loss(each, target, prediction)
            if found is not None:
                yield found


def _loss(loss: CompiledLoss, target: Any, prediction: Any) -> LossCall | OtherLoss | None:
    make = _KNOWN.get(loss.name)
    found = None
    if make is not None and prediction.is_floating_point() and prediction.dim():
        found = make(loss.options, *_aligned(target, prediction))
    if found is None:
        other = OtherLoss(loss.function, target, [prediction], loss.output)
        return other if loss.is_pure else None
    function, arguments = found
    with torch.no_grad():
        value = function(**arguments)
    module = f"{loss.output}_loss" if loss.output else None  # as Keras logs it
    return LossCall(function, arguments, value, script_line(), module)


def _aligned(target: Any, prediction: Any) -> tuple[Any, Any]:
    """Of shapes (N) and (N, 1) the latter loses its last axis, as with Keras."""
    if prediction.dtype in (torch.float16, torch.bfloat16):
        prediction = prediction.float()
    if target.dim() == prediction.dim() + 1 and target.shape[-1] == 1:
        return target.squeeze(-1), prediction
    if prediction.dim() == target.dim() + 1 and prediction.shape[-1] == 1:
        return target, prediction.squeeze(-1)
    return target, prediction


Found = tuple[Callable[..., Any], Arguments] | None


def _by_number(function: Callable[..., Any], **own: Any) -> Callable[..., Found]:
    def made(options: Arguments, target: Any, prediction: Any) -> Found:
        if target.shape != prediction.shape:
            return None
        arguments = {"input": prediction, "target": target.to(prediction.dtype), **own}
        return function, arguments

    return made


def _two_classes(options: Arguments, target: Any, prediction: Any) -> Found:
    if target.shape != prediction.shape:
        return None
    arguments = {"input": prediction, "target": target.to(prediction.dtype)}
    if options.get("from_logits"):
        return F.binary_cross_entropy_with_logits, arguments
    if bool(((arguments["target"] < 0) | (arguments["target"] > 1)).any()):
        return None  # PyTorch refuses it
    arguments["input"] = prediction.clamp(_LEAST, 1 - _LEAST)
    return F.binary_cross_entropy, arguments


def _classes(options: Arguments, target: Any, prediction: Any) -> Found:
    """Labels are shares of the classes, or with one axis less numbers of classes."""
    if options.get("axis", -1) not in (-1, prediction.dim() - 1) or prediction.dim() < 2:
        return None
    if target.dim() == prediction.dim() and target.shape[-1] == 1:
        target = target.squeeze(-1)
    scores = prediction if options.get("from_logits") else prediction.clamp(min=_LEAST).log()
    arguments = {"input": scores.movedim(-1, 1)}
    if smoothing := options.get("label_smoothing"):
        arguments["label_smoothing"] = float(smoothing)
    if target.shape == prediction.shape:
        return F.cross_entropy, {**arguments, "target": target.to(scores.dtype).movedim(-1, 1)}
    if target.shape != prediction.shape[:-1]:
        return None
    ignored = options.get("ignore_class")
    ignored = -100 if ignored is None else int(ignored)
    target = target.to(torch.int64)
    wrong = (target != ignored) & ((target < 0) | (target >= prediction.shape[-1]))
    if bool(wrong.any()):
        return None  # a device would end the process
    return F.cross_entropy, {**arguments, "target": target, "ignore_index": ignored}


_KNOWN: Mapping[str, Callable[[Arguments, Any, Any], Found]] = {
    "binarycrossentropy": _two_classes,
    "categoricalcrossentropy": _classes,
    "meanabsoluteerror": _by_number(F.l1_loss),
    "meansquarederror": _by_number(F.mse_loss),
    "poisson": _by_number(F.poisson_nll_loss, log_input=False),
    "sparsecategoricalcrossentropy": _classes,
}

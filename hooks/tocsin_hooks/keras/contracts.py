"""Contracts that a compiled model of Keras breaks, whatever its data: with any backend."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
from tocsin.model import Role

from tocsin_hooks import Hook
from tocsin_hooks.guard import Guard
from tocsin_hooks.keras.compiled_losses import CompiledLoss, compiled_losses
from tocsin_hooks.script_line import script_line

_SCORES = frozenset({"linear", "relu", "tanh"})
_PROBABILITIES = frozenset({"sigmoid", "softmax"})
_CROSS_ENTROPIES = frozenset(
    {"binarycrossentropy", "categoricalcrossentropy", "sparsecategoricalcrossentropy"}
)


def save_contracts(hook: Hook, model: Any) -> None:
    """Save those that are broken, in the step in hand, with the line of the script."""
    with Guard(hook.trouble, "contracts are not checked"):
        for contract in sorted({*_broken(model)}):
            name = f"contract/{contract}/{script_line()}"
            plan = hook.plan(name, "contracts", role=Role.CONTRACT)
            if plan is not None:
                hook.capture(plan, 1.0)


def _broken(model: Any) -> Iterator[str]:
    for loss in compiled_losses(model):
        output = _output(model, loss)
        layer = getattr(getattr(output, "_keras_history", None), "operation", None)
        activation = _activation(layer)
        if activation is None or not output.shape:
            continue
        if activation == "softmax" and output.shape[getattr(layer, "axis", -1)] == 1:
            yield "softmax_of_one"
        elif loss.name in _CROSS_ENTROPIES and loss.options.get("from_logits"):
            if activation in _PROBABILITIES:
                yield "probabilities_as_logits"
        elif loss.name in _CROSS_ENTROPIES and activation in _SCORES:
            yield "logits_as_probabilities"


def _output(model: Any, loss: CompiledLoss) -> Any:
    """The symbolic output of a model by layers; None of one by methods."""
    outputs = getattr(model, "outputs", None) or []
    names = getattr(model, "output_names", None) or []
    if len(outputs) == 1:
        return outputs[0]
    if loss.output in names and len(names) == len(outputs):
        return outputs[names.index(loss.output)]
    return None


def _activation(layer: Any) -> str | None:
    """The name of what the last layer applies; None where that is not known, as of a layer of the
    script's own, or of one that only changes the type of numbers."""
    if not type(layer).__module__.startswith("keras."):
        return None
    if isinstance(layer, keras.layers.Softmax):
        return "softmax"
    name = getattr(getattr(layer, "activation", None), "__name__", None)
    return None if isinstance(layer, keras.layers.Activation) and name == "linear" else name

"""Contracts that a compiled model of Keras breaks, whatever its data, or by its labels."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Any

import keras
import numpy as np
from keras.callbacks import CallbackList
from numpy.typing import NDArray

from tocsin_hooks import Hook
from tocsin_hooks.best import takes_the_worst
from tocsin_hooks.guard import Guard
from tocsin_hooks.keras.losses import CompiledLoss, compiled_losses
from tocsin_hooks.leaks import column_of
from tocsin_hooks.looks import contract_name
from tocsin_hooks.permuted import is_permuted
from tocsin_hooks.script_line import script_line

_DIFFERENCES = frozenset({"huber", "logcosh", "meanabsoluteerror", "meansquarederror"})
_REACHES = {
    "exponential": (0.0, math.inf),
    "relu": (0.0, math.inf),
    "sigmoid": (0.0, 1.0),
    "softmax": (0.0, 1.0),
    "softplus": (0.0, math.inf),
    "tanh": (-1.0, 1.0),
}
_LEAST_AWAY = 0.15  # of the spread of the labels: what is measured has noise
_LEAST_SHARE = 0.05  # of the labels
_CLOSE = 1e-3
_MOST_DROPPED = 0.85  # of a layer: more is a share that is to be kept
_MOST_PENALTY = 0.1  # times the squares of weights
_SCORES = frozenset({"linear", "relu", "tanh"})
_PROBABILITIES = frozenset({"sigmoid", "softmax"})
_OF_CLASSES = frozenset({"categoricalcrossentropy", "sparsecategoricalcrossentropy"})
_CROSS_ENTROPIES = _OF_CLASSES | {"binarycrossentropy"}


def save_contracts(hook: Hook, broken: Iterable[str], place: str | None = None) -> None:
    """Save those that are broken, in the current step, with the line of the script, or a place."""
    with Guard(hook.trouble, "contracts are not checked"):
        for contract in sorted({*broken}):
            name = contract_name(contract, script_line() if place is None else place)
            plan = hook.plan(name.name, name.collections, role=name.role)
            if plan is not None:
                hook.capture(plan, 1.0)


def broken_by_callbacks() -> Iterator[str]:
    """Return the contracts that the callbacks beside ours break."""
    for each in callbacks_beside():
        largest = getattr(each, "mode", None) == "max" or _compares(each, "greater")
        smallest = getattr(each, "mode", None) == "min" or _compares(each, "less")
        monitor = getattr(each, "monitor", None)
        if monitor and largest != smallest and takes_the_worst(monitor, largest=largest):
            yield "monitor_mode_reversed"


def callbacks_beside() -> list[Any]:
    """Return the callbacks of the list that calls ours."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not isinstance(frame.f_locals.get("self"), CallbackList):
        frame = frame.f_back
    return [] if frame is None else [*frame.f_locals["self"].callbacks]


def _compares(callback: Any, how: str) -> bool:
    return getattr(getattr(callback, "monitor_op", None), "__name__", "") == how


def broken_by_labels(model: Any, labels: Any, inputs: Any) -> Iterator[str]:
    """Return the contracts that labels break which the last layer cannot reach, or which are among
    the inputs; arrays, of a batch."""
    tables = [each for each in keras.tree.flatten(inputs) if isinstance(each, np.ndarray)]
    columns: set[tuple[int, int]] = set()
    for loss in compiled_losses(model):
        target = loss.of(labels)
        if not isinstance(target, np.ndarray) or not target.size:
            continue
        columns |= {
            (at, column)
            for at, each in enumerate(tables)
            if each.dtype.kind == "f" and (column := column_of(target, each)) is not None
        }
        if loss.name == "binarycrossentropy":
            if _share_outside(target, 0.0, 1.0):
                yield "bce_target_out_of_range"
        elif loss.name in _DIFFERENCES and target.dtype.kind in "fiu":
            layer = _last_layer(_output(model, loss))
            reach = _REACHES.get(_activation(layer) or "")
            if reach is not None and _are_outside(target, *reach):
                yield "target_out_of_range"
    if len(columns) == 1:  # several are to be found again
        yield "label_among_inputs"


def _share_outside(labels: NDArray[Any], low: float, high: float) -> float:
    return float(np.mean((labels < low - _CLOSE) | (labels > high + _CLOSE)))


def _are_outside(labels: NDArray[Any], low: float, high: float) -> bool:
    """Return whether more of them are than noise explains."""
    away = labels - labels.clip(low, high)
    far = np.sqrt(np.mean(away**2)) > _LEAST_AWAY * labels.std()
    return bool(far and _share_outside(labels, low, high) > _LEAST_SHARE)


def broken_by_model(model: Any) -> Iterator[str]:
    yield from _broken_by_layers(model)
    for loss in compiled_losses(model):
        output = _output(model, loss)
        layer = _last_layer(output)
        if isinstance(layer, keras.layers.Dropout):
            yield "dropout_on_output"
        activation = _activation(layer)
        if activation is None or not output.shape:
            continue
        if activation == "softmax" and output.shape[getattr(layer, "axis", -1)] == 1:
            yield "softmax_single_class"
        elif loss.name in _OF_CLASSES and _goes_elsewhere(layer, output):
            yield "softmax_over_positions"
        elif loss.name in _CROSS_ENTROPIES and loss.options.get("from_logits"):
            if activation in _PROBABILITIES:
                yield "probabilities_as_logits"
        elif loss.name in _CROSS_ENTROPIES and activation in _SCORES:
            yield "logits_as_probabilities"


def _broken_by_layers(model: Any) -> Iterator[str]:
    for layer in getattr(model, "layers", ()):
        if isinstance(layer, keras.layers.Dropout) and layer.rate >= _MOST_DROPPED:
            yield "dropout_too_large"
        if isinstance(layer, keras.layers.Reshape) and _moves_axes(layer):
            yield "axes_not_permuted"
        penalty = getattr(getattr(layer, "kernel_regularizer", None), "l2", None)
        if penalty is not None and float(penalty) >= _MOST_PENALTY:
            yield "weight_decay_too_large"
        if _activation(layer) == "sigmoid" and any(map(_has_kernel, _next_layers(layer))):
            yield "sigmoid_between_layers"


def _next_layers(layer: Any) -> list[Any]:
    """Return the layers that get a layer's output, in functional models."""
    return [each.operation for each in getattr(layer, "_outbound_nodes", ())]


def _has_kernel(layer: Any) -> bool:
    return getattr(layer, "kernel", None) is not None


def _moves_axes(layer: Any) -> bool:
    before, after = getattr(layer, "input", None), getattr(layer, "output", None)
    shapes = [tuple(getattr(each, "shape", (None,)))[1:] for each in (before, after)]
    return all(None not in each for each in shapes) and is_permuted(*shapes)


def _goes_elsewhere(layer: Any, output: Any) -> bool:
    """Return whether a softmax goes along another axis than the last, of the classes."""
    axis = getattr(layer, "axis", -1) if isinstance(layer, keras.layers.Softmax) else -1
    return isinstance(axis, int) and axis % len(output.shape) != len(output.shape) - 1


def _output(model: Any, loss: CompiledLoss) -> Any:
    """Return the symbolic output of a functional model; None for a subclassed one."""
    outputs = getattr(model, "outputs", None) or []
    names = getattr(model, "output_names", None) or []
    if len(outputs) == 1:
        return outputs[0]
    if loss.output in names and len(names) == len(outputs):
        return outputs[names.index(loss.output)]
    return None


def _last_layer(output: Any) -> Any:
    return getattr(getattr(output, "_keras_history", None), "operation", None)


def _activation(layer: Any) -> str | None:
    """The name of what the last layer applies; None where that is not known, as of a layer of the
    script's own, or of one that only changes the type of numbers."""
    if not type(layer).__module__.startswith("keras."):
        return None
    if isinstance(layer, keras.layers.Softmax):
        return "softmax"
    name = getattr(getattr(layer, "activation", None), "__name__", None)
    return None if isinstance(layer, keras.layers.Activation) and name == "linear" else name

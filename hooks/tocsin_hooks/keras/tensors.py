"""Saves tensors of a Keras model into a step, and names them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import keras
from tocsin.model import Role

from tocsin_hooks import Hook
from tocsin_hooks.keras.parameters import KerasParameter
from tocsin_hooks.keras.values import value_of

HAS_GRADIENTS = keras.backend.backend() == "torch"
"""True if gradients are available after a batch. JAX and TensorFlow compile them away."""


def save_scalars(hook: Hook, logs: Mapping[str, Any], prefix: str = "") -> None:
    """Losses and metrics as Keras logs them, with a ``prefix`` to their names."""
    for name, value in logs.items():
        loss = name == "loss" or name.endswith("_loss")
        collection, role = ("losses", Role.LOSS) if loss else ("metrics", Role.METRIC)
        hook.save(prefix + name, value, collection, role=role)


def save_parameters(hook: Hook, parameters: Iterable[KerasParameter]) -> None:
    for each in parameters:
        _save(hook, each.name, each.variable, each.collection, each.role)


def save_optimizer(hook: Hook, optimizer: Any) -> None:
    """Its variables, such as moments, if the configuration asks for them: they are many."""
    if not hook.configured("optimizer_variables"):
        return
    for variable in getattr(optimizer, "variables", ()):
        name = variable.path.partition("/")[2]  # without the optimizer's own, a number in it
        _save(hook, f"optimizer/{name}:0", variable, "optimizer_variables")


def save_gradients(hook: Hook, parameters: Iterable[KerasParameter], scale: float) -> None:
    """Gradients of the last batch as the backward pass left them: not clipped, not accumulated.

    ``scale`` is what the loss was multiplied with, for half precision.
    """
    for each in parameters:
        gradient = getattr(each.variable.value, "grad", None)
        plan = hook.plan(gradient_name(each), "gradients", role=Role.GRADIENT)
        if plan is not None and gradient is not None:
            hook.capture(plan, gradient if scale == 1 else gradient.float() / scale)


def save_predictions(hook: Hook, outputs: Mapping[str, Any]) -> None:
    """The outputs of a batch: ``predictions``, of several ``predictions/<name or number>``."""
    for key, value in outputs.items():
        several = isinstance(value, list | tuple)
        for number, each in enumerate(value if several else [value]):
            name = "predictions" if key == "outputs" else f"predictions/{key}"
            name = f"{name}/{number}" if several else name
            plan = hook.plan(name, "predictions", role=Role.PREDICTION)
            if plan is not None:
                hook.capture(plan, each)


def gradient_name(parameter: KerasParameter) -> str:
    return f"gradient/{parameter.name}"


def _save(hook: Hook, name: str, variable: Any, collection: str, role: Role | None = None) -> None:
    plan = hook.plan(name, collection, role=role)
    if plan is not None:
        hook.capture(plan, value_of(variable))

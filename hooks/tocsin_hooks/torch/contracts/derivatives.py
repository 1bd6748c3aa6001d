"""Derivatives by inputs that a script computes, for example for a physical equation that a model
has to satisfy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tocsin.model import Mode

from tocsin_hooks.script_line import script_line
from tocsin_hooks.torch import events
from tocsin_hooks.torch.autograd import parameter_of
from tocsin_hooks.torch.contracts.findings import Findings
from tocsin_hooks.torch.graph import nodes_of
from tocsin_hooks.torch.values import tensors_in

_LEAST_ELEMENTS = 8
_MOST_FOLLOWED = 256  # tensors of one loss
_SUMS = frozenset({"add", "sub", "__add__", "__radd__", "__iadd__", "__sub__", "__rsub__"})
_MOST_NODES = 2000


@dataclass(frozen=True)
class _Derivative:
    """Numbers that come from a derivative which has no graph."""

    numbers: Any
    inputs: tuple[Any, ...]


class Derivatives:
    """Tracks derivatives that are computed without a graph, until a backward pass begins.

    Such a derivative is a constant to training. That is meant where it changes an input, or what
    another model does, but not where it stands beside what depends on the same input and on
    parameters, nor where it is a term of the loss: the residual of an equation is to be trained.
    """

    def __init__(self, found: Findings) -> None:
        self._found = found
        self._followed: dict[int, _Derivative] = {}
        self._met: list[tuple[str, Any]] = []

    def loss_forgotten(self, _: events.LossForgotten) -> None:
        self._clear()

    def _clear(self) -> None:
        self._followed, self._met = {}, []

    def called(self, event: events.Called) -> None:
        if self._followed:
            self._follow(event)
        step, args = self._found.step, event.args
        taken = event.function is torch.autograd.grad and not event.inside
        if taken and step.saving and step.mode is Mode.TRAIN:
            place, inputs = script_line(), args[1] if len(args) > 1 else event.kwargs.get("inputs")
            is_zero = self._is_zero(inputs, event.found)
            if self._found.looks_in_step(f"derivative of {place}") and is_zero:
                self._found.count("derivative_always_zero", place)

    def _is_zero(self, inputs: Any, found: Any) -> bool:
        """Return whether a derivative is 0 in all of many elements. Waits for the device."""
        by = tuple(each for _, each in tensors_in(inputs, 8))
        if not torch.is_grad_enabled() or any(isinstance(each, torch.nn.Parameter) for each in by):
            return False
        results = [each for _, each in tensors_in(found, 8)]
        for each in results:
            if not each.requires_grad:
                self._followed[id(each)] = _Derivative(each, by)
        return any(
            each.numel() >= _LEAST_ELEMENTS and not bool(each.detach().any()) for each in results
        )

    def _follow(self, event: events.Called) -> None:
        """Track the tensors that are computed from a derivative."""
        found = event.found
        given = [each for _, each in tensors_in((event.args, event.kwargs), 8)]
        known = [self._followed[id(each)] for each in given if id(each) in self._followed]
        if not known or not isinstance(found, torch.Tensor):
            return
        by = tuple(each for one in known for each in one.inputs)
        if len(self._followed) >= _MOST_FOLLOWED:
            self._clear()
        elif not found.requires_grad:
            self._followed[id(found)] = _Derivative(found, by)
        elif _is_sum_of_terms(event.function, given) or any(
            _is_of_model(each, by) for each in given
        ):
            self._met.append((script_line(), found.grad_fn))

    def backward(self, event: events.Backward) -> None:
        """Judge the derivatives that are part of a loss."""
        if self._met and isinstance(event.loss, torch.Tensor):
            nodes = set(nodes_of(event.loss.grad_fn, _MOST_NODES))
            for place in {place for place, node in self._met if node in nodes}:
                self._found.count("derivative_without_graph", place)
        self._clear()


def _is_sum_of_terms(function: Any, given: Sequence[Any]) -> bool:
    return getattr(function, "__name__", "") in _SUMS and all(not each.dim() for each in given)


def _is_of_model(tensor: Any, inputs: tuple[Any, ...]) -> bool:
    """Return whether it was computed from one of the inputs, and from parameters."""
    if tensor.grad_fn is None or any(tensor is each for each in inputs):
        return False
    nodes = list(nodes_of(tensor.grad_fn, _MOST_NODES))
    leaves = [leaf for each in nodes if (leaf := parameter_of(each)) is not None]
    of_inputs = any(
        any(each is one for one in leaves) if each.grad_fn is None else each.grad_fn in nodes
        for each in inputs
    )
    return of_inputs and any(isinstance(each, torch.nn.Parameter) for each in leaves)

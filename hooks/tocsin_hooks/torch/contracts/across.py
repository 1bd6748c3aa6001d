"""Broadcasts in a hand-written loss that combine each sample with every other one."""

from __future__ import annotations

from typing import Any

import torch

from tocsin_hooks.script_line import script_line
from tocsin_hooks.torch import events
from tocsin_hooks.torch.autograd import base_of, makes_room
from tocsin_hooks.torch.contracts.findings import Findings
from tocsin_hooks.torch.graph import is_summed, nodes_of

DIFFERENCES = frozenset(
    getattr(owner, name)
    for owner in (torch, torch.Tensor)
    for name in ("sub", "subtract", "rsub", "__sub__", "__rsub__")
    if hasattr(owner, name)
)
_PRODUCTS = frozenset(
    getattr(owner, name)
    for owner in (torch, torch.Tensor)
    for name in ("mul", "multiply", "__mul__", "__rmul__")
    if hasattr(owner, name)
)
_OF_MAPS = 4  # axes: samples, channels, rows, columns
_MOST_DIFFERENCES = 16  # of a loss
_MOST_NODES = 200  # of a loss
_COMPARED = 4096  # elements of a mask or of weights


class Broadcasts:
    """Follows differences and products of each sample with each, until it is known whether a loss
    is computed of them. Masks and weights that stay the same are left out: positions,
    frequencies."""

    def __init__(self, found: Findings) -> None:
        self._found = found
        self._differences: list[tuple[str, Any]] = []  # their lines and nodes
        self._products: list[tuple[str, Any]] = []
        self._factors: dict[str, Any] = {}  # some elements of given ones, by the line

    def loss_forgotten(self, _: events.LossForgotten) -> None:
        self._differences, self._products = [], []

    def called(self, event: events.Called) -> None:
        if event.inside or not event.inputs or len(event.args) != 2:
            return
        (one, other), samples = event.args, event.inputs.samples
        if event.function in DIFFERENCES and len(self._differences) < _MOST_DIFFERENCES:
            if broken_by_difference(one, other, event.found, samples):
                self._differences.append((script_line(), event.found.grad_fn))
        elif event.function in _PRODUCTS and self._found.step.saving:
            self._multiplied(event)

    def _multiplied(self, event: events.Called) -> None:
        (one, other), place = event.args, script_line()
        across = goes_across(one, other, event.inputs.samples)
        if across and self._found.looks_in_step(f"product of {place}"):
            given = other if one.requires_grad else one
            some = given.detach().flatten()[:_COMPARED].clone()
            before = self._factors.get(place)
            if before is None or not torch.equal(some, before):
                self._products.append((place, event.found.grad_fn))
            self._factors[place] = some

    def backward(self, event: events.Backward) -> None:
        differences, products = self._differences, self._products
        self._differences, self._products = [], []
        if not isinstance(event.loss, torch.Tensor):
            return
        for place, node in differences:
            if is_summed(event.loss, node, weighted=True):
                self._found("broadcast_difference", place)
        parts = {*nodes_of(event.loss.grad_fn, _MOST_NODES)} if products else ()
        for place, node in products:
            if node in parts:
                self._found.count("broadcast_product", place)


def broadcasts(one: Any, other: Any) -> bool:
    """Return whether shapes as (N, 1) and (N) meet, of which one is computed and the other given.
    Of as many axes, as (N, 1) and (1, N), all pairs are meant."""
    count = one.numel()
    if one.dim() == other.dim() or count != other.numel() or count < 2:
        return False
    if one.requires_grad == other.requires_grad or one.squeeze().shape != other.squeeze().shape:
        return False
    return bool(torch.broadcast_shapes(one.shape, other.shape).numel() > count)


def broken_by_difference(one: Any, other: Any, result: Any, samples: int) -> bool:
    """Return whether predictions and labels are subtracted each from each: of so many samples, or
    of several passes with so many."""
    if not (isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)):
        return False
    computed = one if one.requires_grad else other
    return isinstance(result, torch.Tensor) and (
        goes_across(one, other, samples)
        or _is_column_beside_row(one, other, samples)
        or (
            {one.dim(), other.dim()} == {1, 2}
            and one.numel() % samples == 0
            and computed.grad_fn is not None
            and one.data_ptr() != other.data_ptr()
            and broadcasts(one, other)
        )
    )


def _is_column_beside_row(one: Any, other: Any, samples: int) -> bool:
    """Return whether what a layer gives for each sample is a column and the labels are a row, or
    the reverse. Who compares each with each puts an axis into what is computed."""
    computed = one if one.requires_grad else other
    return (
        one.requires_grad != other.requires_grad
        and {tuple(one.shape), tuple(other.shape)} == {(samples, 1), (1, samples)}
        and computed.grad_fn is not None
        and not makes_room(computed.grad_fn)
    )


def goes_across(one: Any, other: Any, samples: int) -> bool:
    """Return whether what is computed of each of so many samples meets what is given of each, as a
    label, a mask or a weight, and nobody can have meant that."""
    return (
        isinstance(one, torch.Tensor)
        and isinstance(other, torch.Tensor)
        and one.dim() != other.dim()
        and one.dim() > 0 < other.dim()
        and len(one) == len(other) == samples
        and broadcasts(one, other)
        and _is_no_choice(one, other)
    )


def _is_no_choice(one: Any, other: Any) -> bool:
    """Return whether the script has not inserted an axis to combine them: a deliberate pairwise
    comparison does that. But a layer ends with an axis of one channel, and so do labels and masks.
    """
    more, fewer = (one, other) if one.dim() > other.dim() else (other, one)
    if more.requires_grad:
        return more.grad_fn is not None and not makes_room(more.grad_fn)
    column = more.dim() == 2 or (more.dim() >= _OF_MAPS and base_of(more) is None)
    return column and fewer.grad_fn is not None

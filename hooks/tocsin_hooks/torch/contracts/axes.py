"""Axes that a model confuses: views that stand for a permutation, and softmaxes along the wrong
axis."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from tocsin_hooks.permuted import is_permuted
from tocsin_hooks.script_line import script_line
from tocsin_hooks.torch import events
from tocsin_hooks.torch.autograd import base_of, inputs_of, parameter_of
from tocsin_hooks.torch.calls.recorded_call import parts_of_index
from tocsin_hooks.torch.contracts.findings import Findings

_VIEWS = frozenset({"reshape", "view"})
_SOFTMAXES = frozenset({"softmax"})
_PRODUCTS = frozenset({"__matmul__", "__rmatmul__", "bmm", "einsum", "matmul"})
_SUMS = frozenset({"__add__", "__radd__", "add"})
_ATTENTION = {"multi_head_attention_forward": 0, "scaled_dot_product_attention": -2}
"""Functions, and the axis along which their first argument has queries."""
_LAYERS = frozenset({"layer_norm", "linear"})
_KEEPS_WEIGHTS = frozenset({"bfloat16", "clone", "contiguous", "dropout", "float", "half", "to"})
_MOST_FOLLOWED = 256  # tensors of a forward pass


class _Weights(NamedTuple):
    """Shares that add up to 1 along ``axis``."""

    tensor: Any
    axis: int
    place: str


class _View(NamedTuple):
    tensor: Any
    place: str


class Axes:
    """Tracks shapes and axes through the calls of a forward pass.

    * A view of shape (A, B) as (B, A) leaves the numbers where they are, where they should be
      permuted. Attention by relative positions shifts its scores so, and cuts them afterwards:
      that is meant.
    * Attention gives each query shares of the keys. Shares that are 1 along another axis than the
      one that the product with the values sums up are no such shares. Those of other origin than a
      product, as of a gate or of clusters, are left alone.
    * A table whose first rows are added to samples, of which each has positions, is one of
      positions. So attention goes along the axis of samples, too; else they were confused.
    """

    def __init__(self, found: Findings) -> None:
        self._found = found
        self._looks = False
        self._products: dict[int, Any] = {}
        self._weights: dict[int, _Weights] = {}
        self._views: dict[int, _View] = {}
        self._confused = set[str]()
        self._tables: dict[int, str] = {}  # lines, by the length of the other axis

    def model_called(self, event: events.ModelCalled) -> None:
        if event.trains and event.first:
            self._forget()
            self._looks = True

    def pass_forgotten(self, _: events.PassForgotten) -> None:
        self._forget()

    def _forget(self) -> None:
        self._looks = False
        self._products, self._weights, self._views = {}, {}, {}
        self._confused = set()
        self._tables = {}

    def pass_ends(self, _: events.PassEnds) -> None:
        for place in self._confused:
            self._found("attention_over_queries", place)
        for each in self._views.values():
            self._found("axes_not_permuted", each.place)
        self._forget()

    def called(self, event: events.Called) -> None:
        args, found = event.args, event.found
        if not self._looks or not args:
            return
        if len(self._products) + len(self._weights) >= _MOST_FOLLOWED:
            return
        name, given = getattr(event.function, "__name__", ""), args[0]
        if name == "__getitem__":
            self._indexed(given, args[1])
        elif name in _ATTENTION and isinstance(given, torch.Tensor):
            self._attends(given.shape[_ATTENTION[name]])
        if not isinstance(found, torch.Tensor) or not found.is_floating_point():
            return
        if name in _SUMS:
            self._added(args)
        if name in _PRODUCTS:
            self._multiplied(name, args, found)
        elif not isinstance(given, torch.Tensor):
            return
        elif name in _VIEWS and is_permuted(given.shape, found.shape):
            self._views[id(found)] = _View(found, script_line())
        elif name in _SOFTMAXES:
            axis = args[1] if len(args) > 1 else event.kwargs.get("dim")
            if id(given) in self._products and isinstance(axis, int):
                weights = _Weights(found, axis % found.dim(), script_line())
                self._weights[id(found)] = weights
        else:
            self._follow(name, args, found)

    def _added(self, args: Any) -> None:
        """Remember a sum of (A, B, C) with the first rows of a table, of shape (A, 1, C)."""
        if len(args) != 2 or not all(isinstance(each, torch.Tensor) for each in args):
            return
        one, part = sorted(args, key=torch.numel, reverse=True)
        rows, others, width = one.shape if one.dim() == 3 else (0, 0, 0)
        table = base_of(part) if part.shape == (rows, 1, width) else None
        if rows != others > 1 and table is not None and table.is_leaf and len(table) > rows:
            self._tables[others] = script_line()

    def _attends(self, queries: int) -> None:
        if (place := self._tables.pop(queries, None)) is not None:
            self._found("positions_along_batch", place)

    def _indexed(self, given: Any, index: Any) -> None:
        """Record that a slice was taken to shift a sequence."""
        if any(isinstance(each, slice) and each.start for each in parts_of_index(index)):
            self._views.pop(id(given), None)

    def _multiplied(self, name: str, args: Any, found: Any) -> None:
        factors = args[1:] if name == "einsum" else args[:2]
        if name == "einsum" and len(factors) == 1 and isinstance(factors[0], list | tuple):
            factors = factors[0]
        if len(factors) != 2 or any(_is_parameter(each) for each in factors):
            return
        known = [self._weights.get(id(each)) for each in factors]
        for at, (each, weights) in enumerate(zip(factors, known, strict=True)):
            if weights is None or all(known):  # shares of shares
                continue
            left = (at == 0) != (name == "__rmatmul__")
            summed = _summed(args[0], at) if name == "einsum" else {_last(each, left=left)}
            if summed and weights.axis not in summed:
                self._confused.add(weights.place)
        self._products[id(found)] = found
        if found.dim() > 2 and found.shape[-1] == found.shape[-2]:
            self._attends(found.shape[-1])

    def _follow(self, name: str, args: Any, found: Any) -> None:
        weights = self._weights.get(id(args[0]))
        if weights is not None:
            if name in _KEEPS_WEIGHTS and found.shape == weights.tensor.shape:
                self._weights[id(found)] = weights._replace(tensor=found)
            elif name == "transpose" and len(args) > 2:
                one, other = args[1] % found.dim(), args[2] % found.dim()
                axis = {one: other, other: one}.get(weights.axis, weights.axis)
                self._weights[id(found)] = weights._replace(tensor=found, axis=axis)
            return
        for each in args if name not in _LAYERS else ():  # scaled, masked, with a bias
            if id(each) in self._products and each.shape == found.shape:
                self._products[id(found)] = found
                return


def _is_parameter(factor: Any) -> bool:
    """Return whether it is one, or a view of one."""
    if not isinstance(factor, torch.Tensor) or isinstance(factor, torch.nn.Parameter):
        return True
    node = factor.grad_fn
    while len(inputs_of(node)) == 1:
        (node,) = inputs_of(node)
    return parameter_of(node) is not None


def _last(factor: Any, *, left: bool) -> int:
    """The axis of a factor that a product of matrices sums up."""
    return int(factor.dim() - 1 if left or factor.dim() == 1 else factor.dim() - 2)


def _summed(equation: Any, at: int) -> set[int]:
    """The axes of a factor that an ``einsum`` equation sums; none if unknown."""
    if not isinstance(equation, str) or "->" not in equation or "." in equation:
        return set()
    given, result = equation.replace(" ", "").split("->")
    return {axis for axis, letter in enumerate(given.split(",")[at]) if letter not in result}

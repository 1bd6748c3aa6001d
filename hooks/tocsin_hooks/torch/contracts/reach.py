"""The range of an output, from the functions that compute it."""

from __future__ import annotations

import math
from typing import Any

from tocsin_hooks.torch import autograd
from tocsin_hooks.torch.autograd import divisor_of, inputs_of, limits_of, name_of
from tocsin_hooks.torch.graph import before_views

_RANGES = {
    autograd.LSTM_ON_CPU: (-1.0, 1.0),
    autograd.SIGMOID: (0.0, 1.0),
    autograd.TANH: (-1.0, 1.0),
    autograd.RELU: (0.0, math.inf),
    autograd.SOFTPLUS: (0.0, math.inf),
    autograd.EXP: (0.0, math.inf),
    autograd.SOFTMAX: (0.0, 1.0),
}
_PARTS = frozenset({autograd.SELECT, autograd.SLICE})  # as the last step of a sequence
_PICKS = frozenset({autograd.GATHER, autograd.INDEX})  # as the value of an action
_JOINS = frozenset({autograd.CAT, autograd.STACK})
_MOST_PARTS = 64
_SCALINGS = frozenset({autograd.MUL, autograd.DIV})
_LEAST_SHARE = 0.05  # of the targets, that the output cannot reach
_LEAST_AWAY = 0.15  # of the spread of the targets: what is measured has noise
_CLOSE = 1e-3


def target_outside_range(one: Any, other: Any) -> bool:
    """Return whether labels lie outside of what predictions that are subtracted from them can be,
    or the reverse. Waits for the device."""
    computed, given = (one, other) if one.requires_grad else (other, one)
    return does_not_reach(before_views(computed.grad_fn), given.detach())


def does_not_reach(node: Any, target: Any) -> bool:
    """Return whether labels lie outside of what a function can give, and more of them than noise
    explains. Waits for the device."""
    reach = _reach(node)
    if reach is None or not target.is_floating_point():
        return False
    wide = target.float()
    away = wide - wide.clamp(*reach)
    outside = (away.abs() > _CLOSE).float().mean() > _LEAST_SHARE
    return bool(outside & (away.square().mean().sqrt() > _LEAST_AWAY * wide.std(correction=0)))


def _reach(node: Any) -> tuple[float, float] | None:
    """The smallest and the largest output of a function."""
    while name_of(node) in _PARTS:
        node = before_views(inputs_of(node)[0])
    if name_of(node) in _SCALINGS:
        return _scaled_reach(node)
    if name_of(node) in _JOINS:
        return _joined_reach(node)
    if name_of(node) in _PICKS:
        return _picked_reach(node)
    limits = limits_of(node) if name_of(node) == autograd.CLAMP else None
    if limits is None:
        return _RANGES.get(name_of(node))
    low, high = limits
    return -math.inf if low is None else low, math.inf if high is None else high


def _joined_reach(node: Any) -> tuple[float, float] | None:
    """Return the range of several joined tensors, such as the steps of a sequence."""
    parts = [before_views(each) for each in inputs_of(node)[:_MOST_PARTS]]
    if any(name_of(each) in _JOINS for each in parts):  # a loop that adds one at a time is deep
        return None
    reaches = {_reach(each) for each in parts}
    return reaches.pop() if len(reaches) == 1 else None


def _picked_reach(node: Any) -> tuple[float, float] | None:
    """Return the reach of what is selected from, if it has two ends: values of actions that have to
    be positive may be learned from targets that are a little below 0 at first."""
    reach = _reach(before_views(inputs_of(node)[0]))
    return reach if reach is not None and all(map(math.isfinite, reach)) else None


def _scaled_reach(node: Any) -> tuple[float, float] | None:
    """Return the range of a multiple, if the factor is a positive number."""
    scaled, *others = inputs_of(node)
    factor = divisor_of(node)
    if any(each is not None for each in others) or factor is None or factor.dim():
        return None
    reach, times = _reach(before_views(scaled)), float(factor)
    if reach is None or not 0 < times < math.inf:
        return None
    times = times if name_of(node) == autograd.MUL else 1 / times
    return times * reach[0], times * reach[1]

"""Searches the graph that autograd has recorded."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Set
from typing import Any

import torch
from torch.autograd.graph import GradientEdge

from tocsin_hooks.torch import autograd
from tocsin_hooks.torch.autograd import (
    constant_of,
    edges_of,
    gives_another_form,
    indices_of,
    inputs_of,
    name_of,
    parameter_of,
)

_SUMS = frozenset({autograd.ADD, autograd.CAT, autograd.SQRT, autograd.STACK})
_SUMS |= autograd.MEANS | autograd.SUMS
_WEIGHTS = frozenset({autograd.DIV, autograd.MUL, autograd.NEG, autograd.SUB, autograd.WHERE})
_ERRORS = frozenset({autograd.ABS, autograd.POW, autograd.VECTOR_NORM})
_LOSSES = frozenset({autograd.HUBER_LOSS, autograd.MSE_LOSS, autograd.SMOOTH_L1_LOSS})
_SHARES = frozenset({autograd.LOG, autograd.LOG_SOFTMAX, autograd.SOFTMAX})
_CHOICES = frozenset({autograd.MAXIMUM, autograd.WHERE})  # of errors to either side
_MULTIPLES = frozenset({autograd.DIV, autograd.MUL, autograd.NEG})
_PLAIN = (_SUMS - {autograd.SQRT}) | {autograd.NEG, autograd.POW, autograd.SUB}
_MOST_NODES = 200
_OF_ERRORS = _SUMS | _WEIGHTS | _ERRORS | _LOSSES
_ARITHMETIC = frozenset({autograd.ADD, autograd.MUL, autograd.SUB})
_NEAR = 12  # nodes
_ALIKE = 6  # nodes in a row


def _always(_: Any) -> bool:
    return True


def nodes_of(node: Any, most: int, passes: Callable[[Any], bool] = _always) -> Iterator[Any]:
    """Yield a node and those that it was computed from, the nearest first, each once, and at most
    so many: only from nodes that one ``passes`` others are looked for."""
    waiting, seen = deque([node]), set[Any]()
    while waiting and len(seen) < most:
        found = waiting.popleft()
        if found is None or found in seen:
            continue
        seen.add(found)
        yield found
        if passes(found):
            waiting += inputs_of(found)


def is_summed(loss: Any, node: Any, *, weighted: bool) -> bool:
    """Return whether a loss is a sum of squares or sizes of what a node gives, beside other terms.
    Sizes to either side may count differently, as for quantiles.

    ``weighted``: they may have weights, or be terms of a likelihood. Looks at the newest part of
    the graph.
    """
    sums = _SUMS | _WEIGHTS if weighted else _SUMS

    def passes(found: Any) -> bool:
        return not _is_size(found) and (_is_of(sums, found) or _scales(found))

    for found in nodes_of(loss.grad_fn, _MOST_NODES, passes):
        before = inputs_of(found)
        if _is_size(found):
            if before_views(before[0]) is before_views(node):
                return True
        elif name_of(found) in _CHOICES and all(is_multiple_of(each, node) for each in before):
            return True
    return False


def is_multiple_of(node: Any, other: Any) -> bool:
    """Return whether a node multiplies the output of another one by a number."""
    node = before_views(node)
    while node is not None and node is not before_views(other):
        given = edges_of(node)
        if name_of(node) not in _MULTIPLES or len(given) != 1:
            return False
        node = before_views(given[0][0])
    return node is not None


def is_weighted(loss: Any, node: Any) -> bool:
    """Return whether the numbers of a node are in a loss, but not as their plain mean or sum: some
    are left out, or have other weights than others. Looks at the newest part of the graph."""

    def passes(found: Any) -> bool:
        return _is_of(_PLAIN, found) or _is_multiple(found)

    plain = {*nodes_of(loss.grad_fn, _MOST_NODES, passes)}
    return node not in plain and node in {*nodes_of(loss.grad_fn, _MOST_NODES)}


def terms_of(loss: Any) -> Iterator[Any]:
    """Return the nodes that a loss is a weighted sum of: errors, such as squares, and others."""

    def passes(found: Any) -> bool:
        return not is_error(found) and _is_of(_SUMS | _WEIGHTS, found)

    nodes = nodes_of(loss.grad_fn, _MOST_NODES, passes)
    return (each for each in nodes if not passes(each))


def is_error(node: Any) -> bool:
    """Return whether a node computes squares or absolute values, or their mean."""
    return name_of(node) in _LOSSES or _is_size(node)


def _is_size(node: Any) -> bool:
    """Return whether a node computes squares or absolute values."""
    name, before = name_of(node), inputs_of(node)
    return name in _ERRORS or (name == autograd.MUL and before[:1] == before[1:])


def _is_of(names: Set[str], node: Any) -> bool:
    """Return whether a node has one of these names, or gives numbers in another form."""
    return name_of(node) in names or gives_another_form(node)


def picked_values(loss: Any) -> Any:
    """Return the node of a table from whose rows numbers are picked, as the values of actions, if a
    loss is of their errors, and they are no probabilities. Looks at the newest part of the
    graph."""
    waiting, seen = [(getattr(loss, "grad_fn", None), False)], set[Any]()
    while waiting and len(seen) < _MOST_NODES:
        found, errors = waiting.pop()
        if found is None or found in seen:
            continue
        seen.add(found)
        before = inputs_of(found)
        if errors and _picks_one(found):
            return None if has_shares(before[0]) else before[0]
        errors = errors or is_error(found)
        if _is_of(_OF_ERRORS, found) or name_of(found) == autograd.SELECT:  # the only column, too
            waiting += [(each, errors) for each in before]
    return None


def parameters_near(node: Any, most: int) -> set[int]:
    """Return the identities of those parameters that are among so many nodes before this one."""
    leaves = map(parameter_of, nodes_of(node, most))
    return {id(each) for each in leaves if each is not None}


def has_shares(node: Any) -> bool:
    """Return whether a node computes probabilities or their logarithms, as ``torch.distributions``
    does.
    """
    node = before_views(node)
    while name_of(node) == autograd.EXPAND:
        node = before_views(inputs_of(node)[0])
    if name_of(node) == autograd.SUB:  # what the shares are parts of
        return any(name_of(before_views(each)) == autograd.LOGSUMEXP for each in inputs_of(node))
    return name_of(node) in _SHARES


def _picks_one(node: Any) -> bool:
    """Return whether a node selects a number from each row of a table."""
    indices = indices_of(node) if name_of(node) in (autograd.GATHER, autograd.INDEX) else []
    if name_of(node) == autograd.GATHER:
        return all(each is not None and each.shape[1:] == (1,) for each in indices)
    if len(indices) != 2 or any(each is None or each.dim() != 1 for each in indices):
        return False
    rows = indices[0]
    return bool((rows == torch.arange(len(rows), device=rows.device)).all())


def is_maximum(node: Any) -> bool:
    """Return whether it gives maxima along an axis, multiplied and added to: the value of the best
    action."""
    waiting, seen = [node], 0
    while waiting and seen < _NEAR:
        found, seen = before_views(waiting.pop()), seen + 1
        if name_of(found) in autograd.MAXIMA_OF_AXES:
            return True
        if name_of(found) in _ARITHMETIC:
            waiting += inputs_of(found)
    return False


def is_gap(loss: Any) -> bool:
    """Return whether a loss is the difference of two means that are computed in the same way, as of
    the energies of data and of samples, beside other terms: its value does not show progress.
    """
    waiting = [loss.grad_fn]
    while waiting:
        node = waiting.pop()
        before = inputs_of(node)
        if name_of(node) == autograd.ADD:
            waiting += before
        elif name_of(node) == autograd.SUB and name_of(before[0]) in autograd.MEANS:
            return _are_alike(*before)
    return False


def _are_alike(one: Any, other: Any) -> bool:
    """Return whether two nodes, and the first ones before them, are of the same classes."""
    for _ in range(_ALIKE):
        if name_of(one) != name_of(other):
            return False
        if not inputs_of(one):
            break
        one, other = inputs_of(one)[0], inputs_of(other)[0]
    return True


def _scales(node: Any) -> bool:
    """Return whether it multiplies by one number, by weights or a mask, or divides by such."""
    if name_of(node) not in (autograd.MUL, autograd.DIV) or len(edges_of(node)) != 1:
        return False
    other = constant_of(node)
    if other is None or not other.dim():
        return other is not None
    return bool((other >= 0).all())


def _is_multiple(node: Any) -> bool:
    """Return whether it multiplies all its numbers by the same one, or divides them, or by what is
    computed of the same samples, as where easy ones count less."""
    if name_of(node) not in (autograd.MUL, autograd.DIV):
        return False
    if None not in inputs_of(node):
        return True
    other = constant_of(node)
    return other is None or other.numel() == 1


def before_views(node: Any) -> Any:
    """Return the node whose numbers are only given another form by this one and those before it."""
    while gives_another_form(node):
        node = inputs_of(node)[0]
    return node


def gradient_of(loss: Any, node: Any) -> Any:
    """Return the gradient of a loss by the output of a node; None if it does not depend on it."""
    edge = [GradientEdge(node, 0)]
    return torch.autograd.grad(loss, edge, retain_graph=True, allow_unused=True)[0]

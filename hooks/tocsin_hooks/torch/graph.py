"""The graph that autograd has recorded."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Set
from typing import Any

import torch

_RESHAPES = re.compile(
    r"(Alias|Clone|Permute|ReshapeAlias|Squeeze|T|ToCopy|Transpose|UnsafeView|Unsqueeze|View)"
    r"Backward\d"
)

_SUMS = frozenset({"AddBackward0", "MeanBackward0", "MeanBackward1", "SqrtBackward0"})
_SUMS |= frozenset({"CatBackward0", "StackBackward0", "SumBackward0", "SumBackward1"})
_WEIGHTS = frozenset({"DivBackward0", "MulBackward0", "NegBackward0", "SubBackward0"})
_WEIGHTS |= frozenset({"WhereBackward0"})
_ERRORS = frozenset({"AbsBackward0", "LinalgVectorNormBackward0", "PowBackward0"})
_LOSSES = frozenset({"HuberLossBackward0", "MseLossBackward0", "SmoothL1LossBackward0"})
_SHARES = frozenset({"LogBackward0", "LogSoftmaxBackward0", "SoftmaxBackward0"})
_TOTALS = frozenset({"LogsumexpBackward0"})  # logarithms of sums, which shares are parts of
_CHOICES = frozenset({"MaximumBackward0", "WhereBackward0"})  # of errors to either side
_MULTIPLES = frozenset({"DivBackward0", "MulBackward0", "NegBackward0"})
_PLAIN = (_SUMS - {"SqrtBackward0"}) | {"NegBackward0", "PowBackward0", "SubBackward0"}
_MOST_NODES = 200
_OF_ERRORS = _SUMS | _WEIGHTS | _ERRORS | _LOSSES
_COLUMN = "SelectBackward0"  # as ``[:, 0]`` takes it of a table with one column
_LARGEST = frozenset({"AmaxBackward0", "MaxBackward0"})  # along an axis
_ARITHMETIC = frozenset({"AddBackward0", "MulBackward0", "SubBackward0"})
_NEAR = 12  # nodes
_ALIKE = 6  # nodes in a row


def _always(_: Any) -> bool:
    return True


def nodes_of(node: Any, most: int, passes: Callable[[Any], bool] = _always) -> Iterator[Any]:
    """A node and those that it was computed from, the nearest first, each once, and at most so
    many: only from nodes that one ``passes`` others are looked for."""
    waiting, seen = deque([node]), set[Any]()
    while waiting and len(seen) < most:
        found = waiting.popleft()
        if found is None or found in seen:
            continue
        seen.add(found)
        yield found
        if passes(found):
            waiting += [each for each, _ in found.next_functions]


def is_summed(loss: Any, node: Any, *, weighted: bool) -> bool:
    """Whether a loss is a sum of squares or sizes of what a node gives, beside other terms. Sizes
    to either side may count differently, as for quantiles.

    ``weighted``: they may have weights, or be terms of a likelihood. Looks at the newest part of
    the graph.
    """
    sums = _SUMS | _WEIGHTS if weighted else _SUMS

    def passes(found: Any) -> bool:
        return not _is_size(found) and (_is_of(sums, found) or _scales(found))

    for found in nodes_of(loss.grad_fn, _MOST_NODES, passes):
        before = [each for each, _ in found.next_functions]
        if _is_size(found):
            if before_views(before[0]) is before_views(node):
                return True
        elif name_of(found) in _CHOICES and all(_is_multiple_of(each, node) for each in before):
            return True
    return False


def _is_multiple_of(node: Any, other: Any) -> bool:
    """Whether it gives a number times what another one gives."""
    node = before_views(node)
    while node is not None and node is not before_views(other):
        given = [each for each, _ in node.next_functions if each is not None]
        if name_of(node) not in _MULTIPLES or len(given) != 1:
            return False
        node = before_views(given[0])
    return node is not None


def is_weighted(loss: Any, node: Any) -> bool:
    """Whether the numbers of a node are in a loss, but not as their plain mean or sum: some are
    left out, or have other weights than others. Looks at the newest part of the graph."""

    def passes(found: Any) -> bool:
        return _is_of(_PLAIN, found) or _is_multiple(found)

    plain = {*nodes_of(loss.grad_fn, _MOST_NODES, passes)}
    return node not in plain and node in {*nodes_of(loss.grad_fn, _MOST_NODES)}


def terms_of(loss: Any) -> Iterator[Any]:
    """The nodes that a loss is a sum of, with weights: errors, such as squares, and others."""

    def passes(found: Any) -> bool:
        return not is_error(found) and _is_of(_SUMS | _WEIGHTS, found)

    nodes = nodes_of(loss.grad_fn, _MOST_NODES, passes)
    return (each for each in nodes if not passes(each))


def is_error(node: Any) -> bool:
    """Whether it gives squares or sizes, or the mean of such."""
    return name_of(node) in _LOSSES or _is_size(node)


def _is_size(node: Any) -> bool:
    """Whether it gives the squares or sizes of numbers."""
    name, before = name_of(node), [each for each, _ in node.next_functions]
    return name in _ERRORS or (name == "MulBackward0" and before[:1] == before[1:])


def _is_of(names: Set[str], node: Any) -> bool:
    """Whether a node has one of these names, or gives numbers in another form."""
    return name_of(node) in names or _RESHAPES.fullmatch(name_of(node)) is not None


def picked_values(loss: Any) -> Any:
    """The node of a table from whose rows numbers are picked, as the values of actions, if a loss
    is of their errors, and they are no probabilities. Looks at the newest part of the graph."""
    waiting, seen = [(getattr(loss, "grad_fn", None), False)], set[Any]()
    while waiting and len(seen) < _MOST_NODES:
        found, errors = waiting.pop()
        if found is None or found in seen:
            continue
        seen.add(found)
        before = [each for each, _ in found.next_functions]
        if errors and _picks_one(found):
            return None if _has_shares(before[0]) else before[0]
        errors = errors or is_error(found)
        if _is_of(_OF_ERRORS, found) or name_of(found) == _COLUMN:
            waiting += [(each, errors) for each in before]
    return None


def parameters_near(node: Any, most: int) -> set[int]:
    """The identities of those parameters that are among so many nodes before this one."""
    near = [each for each in nodes_of(node, most) if name_of(each).endswith("AccumulateGrad")]
    return {id(each.variable) for each in near}


def _has_shares(node: Any) -> bool:
    """Whether it gives probabilities or their logarithms, as ``torch.distributions`` does."""
    node = before_views(node)
    while name_of(node) == "ExpandBackward0":
        node = before_views(node.next_functions[0][0])
    if name_of(node) == "SubBackward0":
        return any(name_of(before_views(each)) in _TOTALS for each, _ in node.next_functions)
    return name_of(node) in _SHARES


def _picks_one(node: Any) -> bool:
    """Whether it picks a number from each row of a table."""
    if name_of(node) == "GatherBackward0":
        index = node._saved_index
        return bool(index.dim() == 2 and index.shape[1] == 1)
    indices = [*node._saved_indices] if name_of(node) == "IndexBackward0" else []
    if len(indices) != 2 or any(each is None or each.dim() != 1 for each in indices):
        return False
    rows = indices[0]
    return bool((rows == torch.arange(len(rows), device=rows.device)).all())


def is_maximum(node: Any) -> bool:
    """Whether it gives maxima along an axis, multiplied and added to: the value of the best
    action."""
    waiting, seen = [node], 0
    while waiting and seen < _NEAR:
        found, seen = before_views(waiting.pop()), seen + 1
        if name_of(found) in _LARGEST:
            return True
        if name_of(found) in _ARITHMETIC:
            waiting += [each for each, _ in found.next_functions]
    return False


def is_gap(loss: Any) -> bool:
    """Whether a loss is the difference of two means that are computed in the same way, as of the
    energies of data and of samples, beside other terms: it has no level that is good."""
    waiting = [loss.grad_fn]
    while waiting:
        node = waiting.pop()
        before = [] if node is None else [each for each, _ in node.next_functions]
        if name_of(node) == "AddBackward0":
            waiting += before
        elif name_of(node) == "SubBackward0" and name_of(before[0]).startswith("Mean"):
            return _are_alike(*before)
    return False


def _are_alike(one: Any, other: Any) -> bool:
    """Whether two nodes, and the first ones before them, are of the same classes."""
    for _ in range(_ALIKE):
        if name_of(one) != name_of(other):
            return False
        if one is None or not one.next_functions:
            break
        one, other = one.next_functions[0][0], other.next_functions[0][0]
    return True


def _scales(node: Any) -> bool:
    """Whether it multiplies by one number, by weights or a mask, or divides by such."""
    if name_of(node) not in ("MulBackward0", "DivBackward0"):
        return False
    (first, _), (second, _) = node.next_functions
    if (first is None) == (second is None) or (first is None and name_of(node)[0] == "D"):
        return False
    other = node._saved_self if first is None else node._saved_other
    if other is None or not other.dim():
        return other is not None
    return bool((other >= 0).all())


def _is_multiple(node: Any) -> bool:
    """Whether it multiplies all its numbers by the same one, or divides them, or by what is
    computed of the same samples, as where easy ones count less."""
    if name_of(node) not in ("MulBackward0", "DivBackward0"):
        return False
    if all(each is not None for each, _ in node.next_functions):
        return True
    other = node._saved_self if node.next_functions[0][0] is None else node._saved_other
    return other is None or other.numel() == 1


def before_views(node: Any) -> Any:
    """The node whose numbers are only given another form by this one and those before it."""
    while node is not None and _RESHAPES.fullmatch(node.name()):
        node = node.next_functions[0][0]
    return node


def name_of(node: Any) -> str:
    """Its class, as ``ReluBackward0``; empty for none."""
    return "" if node is None else str(node.name())

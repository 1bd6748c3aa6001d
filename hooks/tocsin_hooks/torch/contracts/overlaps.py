"""Losses computed from the overlap of predictions and labels, such as Dice and Jaccard."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch

from tocsin_hooks.torch import autograd
from tocsin_hooks.torch.autograd import (
    constant_of,
    divisor_of,
    edges_of,
    inputs_of,
    name_of,
    result_of,
)
from tocsin_hooks.torch.graph import before_views, gradient_of, nodes_of

_MOST_NODES = 64  # from the loss to a share
_BELOW = -0.1  # what is enlarged between two chances may be a little below 0
_LEAST_BELOW = 0.01  # of all
_CHANCES = (autograd.SIGMOID, autograd.SOFTMAX)
_SCALED = autograd.SUMS | {autograd.ADD, autograd.MUL}


def broken_by_overlap(loss: Any, outputs: Iterable[Any]) -> Iterator[str]:
    """Yield the contracts that an overlap loss breaks."""
    if minimises_overlap(loss):
        yield "overlap_minimised"
    if has_overlap_of_scores(loss, outputs):
        yield "overlap_of_logits"


def minimises_overlap(loss: Any) -> bool:
    """Return whether a loss falls with the share that predictions and labels have in common, as
    that of Dice (2 sum(p y) / (sum(p) + sum(y)), Milletari et al., 3DV 2016, also of squares) or of
    Jaccard (sum(p y) / (sum(p) + sum(y) - sum(p y))): the share is to be subtracted from 1. Asks
    autograd for the sign."""
    for product in _products(loss, {}):
        found = gradient_of(loss, product)
        if found is not None and bool((found >= 0).all()) and bool((found > 0).any()):
            return True
    return False


def has_overlap_of_scores(loss: Any, outputs: Iterable[Any]) -> bool:
    """Return whether such a share, not of squares, is one of a model's ``outputs`` as they are, and
    some are clearly below 0: no chances. It may be below 0 then, or have any size."""
    scores = {before_views(each.grad_fn): each for each in outputs if each.grad_fn is not None}
    for product in _products(loss, scores, squares=False):
        node, _ = _factors(product)
        if node in scores:
            below = (scores[node].detach() < _BELOW).double().mean()
            if bool(below >= _LEAST_BELOW):
                return True
    return False


def _products(loss: Any, known: Mapping[Any, Any], *, squares: bool = True) -> Iterator[Any]:
    """Products of probabilities, or of ``known`` tensors, and labels whose sum is divided by that
    of both.
    """
    for node in nodes_of(loss.grad_fn, _MOST_NODES):
        given = inputs_of(node)
        if name_of(node) == autograd.DIV and len(given) == 2 and None not in given:
            product = _summed(given[0], known)
            if product is not None:
                factors = _values(product, known)
                divisor = divisor_of(node)
                if divisor is not None and _is_of_both(divisor, *factors, squares=squares):
                    yield product


def _summed(node: Any, known: Mapping[Any, Any]) -> Any:
    """The product of probabilities and labels that a node sums, if it does."""
    for _ in range(_MOST_NODES):
        if node is None or name_of(node) not in _SCALED:
            return None
        if name_of(node) == autograd.MUL and _is_of_labels(node, known):
            return node
        given = edges_of(node)
        if len(given) != 1:
            return None
        node = before_views(given[0][0])
    return None


def _is_of_both(divisor: Any, chances: Any, labels: Any, *, squares: bool) -> bool:
    """Return whether a divisor is as large as chances and labels together, and not as one of them:
    as that of a rate of false positives. Each of its numbers may have 1 more, so that it is never
    0."""
    one = chances.detach().double().flatten()
    other = labels.detach().double().flatten()
    total, ones, others = (float(each.sum()) for each in (divisor.detach().double(), one, other))
    both = float((one * other).sum())
    of_squares = float((one.square() + other.square()).sum())
    for sums in (ones + others, ones + others - both, *([of_squares] if squares else [])):
        away = min(abs(total - sums), abs(total - sums - divisor.numel()))
        if 10 * away <= min(abs(total - ones), abs(total - others)):
            return True
    return False


def _factors(node: Any) -> tuple[Any, Any]:
    """The node of the probabilities in a product, and the labels; None for what is missing."""
    given = edges_of(node)
    return (before_views(given[0][0]), constant_of(node)) if len(given) == 1 else (None, None)


def _values(product: Any, known: Mapping[Any, Any]) -> tuple[Any, Any]:
    """The probabilities of a product, or the known tensor of the node in their place, and the
    labels.
    """
    node, labels = _factors(product)
    return result_of(node) if name_of(node) in _CHANCES else known.get(node), labels


def _is_of_labels(node: Any, known: Mapping[Any, Any]) -> bool:
    """Return whether a product is that of probabilities and of labels of the same shape, 0 or 1."""
    chances, labels = _values(node, known)
    if chances is None or not isinstance(labels, torch.Tensor):
        return False
    if labels.numel() != chances.numel() or labels.requires_grad:
        return False
    return bool(((labels == 0) | (labels == 1)).all()) and bool(labels.any())

"""The axis and the input of a softmax before a loss, from the nodes of autograd."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tocsin_hooks.torch import autograd
from tocsin_hooks.torch.autograd import inputs_of, matrices_of, name_of, softmax_of
from tocsin_hooks.torch.calls.loss_call import LossCall
from tocsin_hooks.torch.graph import before_views, nodes_of

_SOFTMAXES = frozenset({autograd.LOG_SOFTMAX, autograd.LOGSUMEXP, autograd.SOFTMAX})
_SHARES = frozenset({autograd.LOG_SOFTMAX, autograd.SOFTMAX})
_PICKS = frozenset({autograd.GATHER, autograd.INDEX})
_SINGLE_CLASS = "softmax_single_class"
RELU_ON_SCORES = "relu_on_scores"
_MOST_NODES = 1000
_MANY = 32  # classes, of which cosines cannot make one likely
_LEAST_SHARE = 0.05  # of the rows of labels
_CLOSE = 1e-3


def has_log_softmax(prediction: Any) -> bool:
    """Return whether a tensor was computed as logarithms of probabilities."""
    return name_of(before_views(prediction.grad_fn)) == autograd.LOG_SOFTMAX


def broken_by_softmax(loss: Any) -> Iterator[str]:
    """Yield the contracts that the softmaxes break of which a loss is computed."""
    if _has_softmax_twice(loss):
        yield "softmax_twice"
    if _has_cosines(loss):
        yield "cosines_as_logits"
    if any(_is_over_one_sample(node) for node in nodes_of(loss.grad_fn, _MOST_NODES)):
        yield _SINGLE_CLASS
    if any(_picks_from_relu(node) for node in nodes_of(loss.grad_fn, _MOST_NODES)):
        yield RELU_ON_SCORES


def is_of_relu(node: Any) -> bool:
    """Return whether it computes logarithms of probabilities from what ReLU gives."""
    if name_of(node) != autograd.LOG_SOFTMAX:
        return False
    return name_of(before_views(inputs_of(node)[0])) == autograd.RELU


def _picks_from_relu(node: Any) -> bool:
    """Return whether the logarithms of a policy's probabilities, of which those of the actions are
    taken, are of what ReLU gives."""
    return name_of(node) in _PICKS and is_of_relu(before_views(inputs_of(node)[0]))


def _has_softmax_twice(loss: Any) -> bool:
    """Return whether a loss is computed of a softmax of probabilities: along the same axis, and
    with nothing in between. Looks at the newest part of the graph."""
    for node in nodes_of(loss.grad_fn, _MOST_NODES):
        if name_of(node) not in _SOFTMAXES:
            continue
        inner = before_views(inputs_of(node)[0])
        twice = softmax_of(inner) if name_of(inner) == autograd.SOFTMAX else None
        if twice is not None and twice.shape[twice.axis] > 1:
            outer = softmax_of(node)
            if outer is not None and outer.axis == twice.axis:
                return True
    return False


def _is_over_one_sample(node: Any) -> bool:
    """Return whether the scores of a single sample are made probabilities along the batch, as where
    a policy is asked for one action: each is 1."""
    softmax = softmax_of(node) if name_of(node) in _SHARES else None
    if softmax is None or len(softmax.shape) != 2:
        return False
    return softmax.axis == 0 and softmax.shape[0] == 1 < softmax.shape[1]


def _has_cosines(loss: Any) -> bool:
    """Return whether a loss is computed of a softmax of many cosines as they are, without a
    temperature. Looks at the newest part of the graph."""
    return any(
        name_of(node) in (autograd.LOG_SOFTMAX, autograd.LOGSUMEXP)
        and _are_cosines(before_views(inputs_of(node)[0]))
        for node in nodes_of(loss.grad_fn, _MOST_NODES)
    )


def _are_cosines(node: Any) -> bool:
    """Return whether a node computes products of rows and columns of length 1."""
    if name_of(node) not in autograd.MATRIX_PRODUCTS:
        return False
    rows, columns = matrices_of(node)
    if rows is None or columns is None or columns.shape[-1] < _MANY or rows.shape[-1] < 2:
        return False
    lengths = rows.detach().norm(dim=-1), columns.detach().norm(dim=-2)
    return all(bool(((each - 1).abs() < _CLOSE).all()) for each in lengths)


def goes_over_batch(call: LossCall, node: Any) -> bool:
    """Return whether a softmax over classes is computed along the batch."""
    if name_of(node) == autograd.LOG:
        node = before_views(inputs_of(node)[0])
    softmax = softmax_of(node) if name_of(node) in _SHARES else None
    if softmax is None:
        return False
    shape = softmax.shape
    return (
        len(shape) == 2
        and softmax.axis == 0
        and shape == call.prediction.shape
        and shape[0] != shape[1]
        and min(shape) > 1
        and not _goes_over_batch_too(call.target, shape)
    )


def _goes_over_batch_too(target: Any, shape: Any) -> bool:
    """Return whether labels are shares along the batch, as of the documents of one query."""
    if target.shape != shape or not target.is_floating_point():
        return False
    return bool(((target.sum(0) - 1).abs() < _CLOSE).all())


def goes_over_positions(prediction: Any) -> bool:
    """Return whether scores of shape (N, C, positions …) are made probabilities along another
    axis."""
    node = prediction.grad_fn
    softmax = softmax_of(node) if name_of(node) == autograd.LOG_SOFTMAX else None
    return softmax is not None and prediction.dim() > 2 and softmax.axis != 1


def adds_up_to_more(node: Any, target: Any) -> bool:
    """Return whether multi-label targets are used with a softmax, whose rows have a sum of 1."""
    softmax = softmax_of(node) if name_of(node) == autograd.SOFTMAX else None
    if softmax is None or softmax.shape != target.shape:
        return False
    sums = target.sum(softmax.axis)
    return bool((sums > 1.5).float().mean() > _LEAST_SHARE)


def broken_by_single_class(call: LossCall, node: Any) -> Iterator[str]:
    """Yield the contract that a softmax over a single score breaks: it is 1, whatever that is."""
    prediction = call.prediction
    if call.has_classes and prediction.dim() > 1:
        is_single = prediction.shape[1] == 1
    else:
        softmax = softmax_of(node) if name_of(node) in _SHARES else None
        is_single = softmax is not None and softmax.shape[softmax.axis] == 1
    if is_single:
        yield _SINGLE_CLASS

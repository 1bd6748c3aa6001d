"""Along which axis a softmax before a loss is computed, and of what, by the nodes of autograd."""

from __future__ import annotations

from typing import Any

from tocsin_hooks.torch.calls.loss_calls import LossCall
from tocsin_hooks.torch.graph import before_views, name_of, nodes_of

_SOFTMAXES = frozenset({"LogSoftmaxBackward0", "LogsumexpBackward0", "SoftmaxBackward0"})
_PRODUCTS = frozenset({"BmmBackward0", "MmBackward0"})
_MOST_NODES = 1000
_MANY = 32  # classes, of which cosines cannot make one likely
_LEAST_SHARE = 0.05  # of the rows of labels
_CLOSE = 1e-3


def has_log_softmax(prediction: Any) -> bool:
    """Whether these are logarithms of probabilities, by what computed them."""
    return name_of(before_views(prediction.grad_fn)) == "LogSoftmaxBackward0"


def has_softmax_twice(loss: Any) -> bool:
    """Whether a loss is computed of a softmax of probabilities: along the same axis, and with
    nothing in between. Looks at the newest part of the graph."""
    for node in nodes_of(loss.grad_fn, _MOST_NODES):
        if name_of(node) not in _SOFTMAXES:
            continue
        inner = before_views(node.next_functions[0][0])
        if name_of(inner) == "SoftmaxBackward0":
            shape = inner._saved_result.shape
            axis = _axis(inner, len(shape))
            if shape[axis] > 1 and axis == _axis(node, len(shape)):
                return True
    return False


def has_cosines(loss: Any) -> bool:
    """Whether a loss is computed of a softmax of many cosines as they are, without a temperature.
    Looks at the newest part of the graph."""
    return any(
        name_of(node) in ("LogSoftmaxBackward0", "LogsumexpBackward0")
        and _are_cosines(before_views(node.next_functions[0][0]))
        for node in nodes_of(loss.grad_fn, _MOST_NODES)
    )


def _are_cosines(node: Any) -> bool:
    """Whether it gives products of rows and columns of length 1."""
    if name_of(node) not in _PRODUCTS:
        return False
    rows, columns = node._saved_self, node._saved_mat2
    if rows is None or columns is None or columns.shape[-1] < _MANY or rows.shape[-1] < 2:
        return False
    lengths = rows.detach().norm(dim=-1), columns.detach().norm(dim=-2)
    return all(bool(((each - 1).abs() < _CLOSE).all()) for each in lengths)


def goes_over_batch(call: LossCall, node: Any) -> bool:
    """Whether classes are made probabilities along the batch."""
    if name_of(node) == "LogBackward0":
        node = before_views(node.next_functions[0][0])
    if name_of(node) not in ("LogSoftmaxBackward0", "SoftmaxBackward0"):
        return False
    shape = node._saved_result.shape
    return (
        len(shape) == 2
        and _axis(node, 2) == 0
        and shape == call.prediction.shape
        and shape[0] != shape[1]
        and min(shape) > 1
        and not _goes_over_batch_too(call.target, shape)
    )


def _goes_over_batch_too(target: Any, shape: Any) -> bool:
    """Whether labels are shares along the batch, as of the documents of one query."""
    if target.shape != shape or not target.is_floating_point():
        return False
    return bool(((target.sum(0) - 1).abs() < _CLOSE).all())


def goes_over_positions(prediction: Any) -> bool:
    """Whether scores of shape (N, C, positions …) are made probabilities along another axis."""
    node, axes = prediction.grad_fn, prediction.dim()
    return axes > 2 and name_of(node) == "LogSoftmaxBackward0" and _axis(node, axes) != 1


def adds_up_to_more(node: Any, target: Any) -> bool:
    """Whether labels of several classes meet a softmax, whose rows have a sum of 1."""
    if name_of(node) != "SoftmaxBackward0" or node._saved_result.shape != target.shape:
        return False
    sums = target.sum(_axis(node, target.dim()))
    return bool((sums > 1.5).float().mean() > _LEAST_SHARE)


def is_of_one(call: LossCall, node: Any) -> bool:
    """Whether a softmax is computed over a single score: it is 1, whatever that is."""
    prediction = call.prediction
    if call.has_classes and prediction.dim() > 1:
        return bool(prediction.shape[1] == 1)
    if name_of(node) not in ("LogSoftmaxBackward0", "SoftmaxBackward0"):
        return False
    shape = node._saved_result.shape
    return bool(len(shape) and shape[_axis(node, len(shape))] == 1)


def _axis(node: Any, dimensions: int) -> int:
    axis = node._saved_dim
    axis = axis[0] if isinstance(axis, tuple) else axis
    return int(axis - (1 << 64) if axis >= 1 << 63 else axis) % dimensions

"""Contracts on every call of a loss function, for any model."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from tocsin.model import Mode

from tocsin_hooks.script_line import script_line
from tocsin_hooks.torch import autograd, events
from tocsin_hooks.torch.autograd import inputs_of, name_of, viewed_shape
from tocsin_hooks.torch.calls.loss_call import LossCall
from tocsin_hooks.torch.contracts.across import DIFFERENCES, broadcasts
from tocsin_hooks.torch.contracts.findings import Findings
from tocsin_hooks.torch.contracts.reach import does_not_reach, target_outside_range
from tocsin_hooks.torch.contracts.softmaxes import (
    RELU_ON_SCORES,
    adds_up_to_more,
    broken_by_single_class,
    goes_over_batch,
    goes_over_positions,
    is_of_relu,
)
from tocsin_hooks.torch.graph import before_views, is_maximum, is_summed, parameters_near

_ELEMENTWISE = frozenset({"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"})
_TAKES_LOGITS = frozenset({"cross_entropy", "binary_cross_entropy_with_logits"})
_BINARY = frozenset({"binary_cross_entropy", "binary_cross_entropy_with_logits"})
_NEAR = 32  # nodes from values of actions to the parameters of the last layer
_MAJORITY = 0.8  # of the labels
_HEAVIER = 3.0  # times the weight of every other class
_SHARE = 0.4  # of the labels: less than most of them
_FAR_HEAVIER = 30.0
_TOO_SHORT = 0.1  # of the samples
_LEAST_SEVERAL = 0.05  # of the rows of labels
_CLOSE = 1e-3
_MOST_ROWS = 4096


class LossContracts:
    """Looks at the first values of each call of a loss, and at differences that it is computed of:
    those of predictions and labels that are squared, or whose sizes are summed up."""

    def __init__(self, found: Findings) -> None:
        self._found = found
        self._subtracts = False  # labels from predictions, since the model was given its inputs
        self._differences: list[tuple[str, events.Called]] = []  # with their lines

    def loss_computed(self, event: events.LossComputed) -> None:
        call, step = event.call, self._found.step
        learns = step.mode is not Mode.TRAIN or call.prediction.requires_grad
        if step.saving and learns and self._found.looks_in_step(call.place):
            with torch.no_grad():
                for contract in broken_by_loss(call, event.inputs):
                    self._found.count(contract, call.place)

    def inputs_given(self, _: events.InputsGiven) -> None:
        self._subtracts = False

    def loss_forgotten(self, _: events.LossForgotten) -> None:
        self._differences = []

    def called(self, event: events.Called) -> None:
        subtracts = event.function in DIFFERENCES and len(event.args) == 2 and not event.inside
        if not (subtracts and event.inputs):
            return
        one, other = event.args
        if compares_samples(one, other, event.inputs.samples):
            self._subtracts, place = True, script_line()
            if self._found.step.saving and self._found.looks(f"difference of {place}"):
                self._differences.append((place, event))

    def backward(self, event: events.Backward) -> None:
        """Judge the differences, except those in the density of an action or in all pairwise
        distances.
        """
        differences, self._differences = self._differences, []
        for place, each in differences if isinstance(event.loss, torch.Tensor) else ():
            summed = is_summed(event.loss, each.found.grad_fn, weighted=False)
            if summed and target_outside_range(*each.args):
                self._found.count("target_out_of_range", place)

    def order_ignored(self, event: events.OrderIgnored) -> None:
        if self._subtracts:
            self._found("errors_cancel", event.place)


def _is_own_maximum(prediction: Any, target: Any) -> bool:
    """Return whether a target is the best value of the model that predicts, and not of a copy."""
    if not is_maximum(target.grad_fn):
        return False
    own = parameters_near(prediction.grad_fn, _NEAR)
    return not own.isdisjoint(parameters_near(target.grad_fn, _NEAR))


def broken_by_loss(call: LossCall, inputs: tuple[Any, ...] = ()) -> Iterator[str]:
    """Yield the contracts that a call of a loss breaks, of a model that was given these inputs.
    Waits for the device: for a few calls only."""
    prediction, target, name = call.prediction, call.target, call.name
    if not prediction.numel() or not target.numel() or not prediction.is_floating_point():
        return
    node = before_views(prediction.grad_fn)
    if name in _ELEMENTWISE or name == "poisson_nll_loss":
        if broadcasts(prediction, target) or _is_each_with_each(prediction, target):
            yield "broadcast"
        elif prediction.requires_grad and _is_own_maximum(prediction, target):
            yield "target_not_detached"
        elif name in _ELEMENTWISE and does_not_reach(node, target):
            yield "target_out_of_range"
    if name == "binary_cross_entropy" and adds_up_to_more(node, target):
        yield "target_out_of_range"
    yield from broken_by_single_class(call, node)
    if name in _TAKES_LOGITS and _are_probabilities(call, node):
        yield "probabilities_as_logits"
    scores_of_relu = name in _TAKES_LOGITS and name_of(node) == autograd.RELU
    if scores_of_relu or (name == "nll_loss" and is_of_relu(node)):
        yield RELU_ON_SCORES
    if name == "cross_entropy" and _have_several_classes(prediction, target, inputs):
        yield "several_classes_in_cross_entropy"
    if name == "nll_loss" and name_of(node) != autograd.LOG_SOFTMAX and _exceeds_one(prediction):
        yield "not_log_probabilities"
    if name == "ctc_loss" and _any(prediction > _CLOSE):
        yield "not_log_probabilities"
    if name == "ctc_loss" and _has_blank(call):
        yield "ctc_blank_in_labels"
    if name == "ctc_loss" and _are_too_short(call):
        yield "ctc_input_too_short"
    if name in ("cross_entropy", "nll_loss", "kl_div") and goes_over_batch(call, node):
        yield "softmax_over_batch"
    if name == "nll_loss" and goes_over_positions(prediction):
        yield "softmax_over_positions"
    if call.has_classes and _are_not_permuted(prediction):
        yield "classes_not_permuted"
    if call.has_classes and _all(target == call.arguments.get("ignore_index", -100)):
        yield "all_labels_ignored"
    if _are_upside_down(call):
        yield "class_weights_inverted"
    if name in _BINARY and call.arguments.get("reduction") != "none":
        weighted = call.arguments.get("weight") is not None
        if not weighted and _any((target < -_CLOSE) | (target > 1 + _CLOSE)):
            yield "bce_target_out_of_range"
    if name == "kl_div" and name_of(node) != autograd.LOG_SOFTMAX and _is_not_log(prediction):
        yield "kl_div_input_not_log"


def _is_each_with_each(one: Any, other: Any) -> bool:
    """Return whether shapes (N) and (N, N) meet, the second from an earlier broadcast."""
    few, many = sorted((one, other), key=lambda each: each.dim())
    return bool(few.dim() == 1 < len(few) and many.shape == (len(few), len(few)))


def compares_samples(one: Any, other: Any, samples: int) -> bool:
    """Return whether labels of the given number of samples are subtracted from predictions, or the
    reverse.
    """
    if not (isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)):
        return False
    alike = one.shape == other.shape and one.dim() > 0 and len(one) == samples > 1
    return alike and one.requires_grad != other.requires_grad


def _are_probabilities(call: LossCall, node: Any) -> bool:
    before = name_of(node)
    if call.name != "cross_entropy":
        return before in (autograd.SIGMOID, autograd.SOFTMAX)
    if before == autograd.SOFTMAX:
        return True
    rows = _rows(call.prediction)
    if rows.shape[-1] < 2:
        return False
    return _all(rows >= 0) and _all((rows.sum(-1) - 1).abs() < _CLOSE)


def _have_several_classes(prediction: Any, target: Any, inputs: tuple[Any, ...]) -> bool:
    """Return whether rows of 0 and 1 have several ones. Those of pairs of samples may, as each has
    several partners, and those of items that a model was given to find again."""
    if target.shape != prediction.shape or target.dim() < 2 or len(target) == target.shape[1]:
        return False
    if any(each is target for each in inputs):
        return False
    ones = target == 1
    several = (ones.sum(1) > 1).float().mean() > _LEAST_SEVERAL
    return bool((ones | (target == 0)).all() & several)


def _exceeds_one(prediction: Any) -> bool:
    """Return whether each row, taken as logarithms of probabilities, has a sum of more than 1."""
    return _all(_rows(prediction).exp().sum(-1) > 1.01)


def _are_upside_down(call: LossCall) -> bool:
    """Return whether class weights are inverted: the most frequent class has by far the largest
    weight.
    """
    weight, positive = call.arguments.get("weight"), call.arguments.get("pos_weight")
    if call.has_classes and weight is not None and weight.numel() > 1:
        labels = call.target.detach().flatten()
        labels = labels[(labels >= 0) & (labels < weight.numel())]
        counts = torch.bincount(labels, minlength=weight.numel())
        top = int(counts.argmax())
        others = torch.cat([weight[:top], weight[top + 1 :]])
        share, heavier = counts[top] / counts.sum(), weight[top] / others.max()
        far_heavier = (heavier >= _FAR_HEAVIER) & (others.max() > 0)  # else the rest is left out
        most = (share >= _MAJORITY) & (heavier >= _HEAVIER)
        return bool(most | ((share >= _SHARE) & far_heavier))
    if positive is not None and positive.numel() == 1:
        share = call.target.detach().float().mean()
        rare = bool((share < 1 - _MAJORITY) & (positive <= 1 / _HEAVIER))
        return rare or bool((share > _MAJORITY) & (positive >= _HEAVIER))
    return False


def _are_not_permuted(prediction: Any) -> bool:
    """Return whether scores of shape (N, C, positions …) are only viewed as (…, C), or the reverse:
    the numbers stay where they are, and classes and positions are confused."""
    classes = prediction.shape[1 if prediction.dim() > 1 else 0]
    node, after = prediction.grad_fn, tuple(prediction.shape)
    while name_of(node) in autograd.VIEWS and (before := viewed_shape(node)):
        behind = before[2:]
        many = math.prod(behind) > 1 and after[-len(behind) :] != behind  # else axis 1 is divided
        if prediction.dim() == 2 and many and before[1] == classes != before[-1]:
            return True
        if prediction.dim() > 2 and many and before[-1] == classes != before[1]:
            return True
        node, after = inputs_of(node)[0], before
    return False


def _has_blank(call: LossCall) -> bool:
    """Return whether CTC's blank is one of the labels; padding does not count."""
    labels, lengths = call.target, torch.as_tensor(call.arguments.get("target_lengths", ()))
    found = labels == call.arguments.get("blank", 0)
    if labels.dim() == 2 and lengths.shape == labels.shape[:1]:
        places = torch.arange(labels.shape[1], device=labels.device)
        found = found & (places < lengths.to(labels.device)[:, None])
    return _any(found)


def _are_too_short(call: LossCall) -> bool:
    """Return whether some samples have fewer steps than labels, so that CTC has no path."""
    given = (call.arguments.get(name) for name in ("input_lengths", "target_lengths"))
    steps, labels = (torch.as_tensor(() if each is None else each).cpu() for each in given)
    if steps.shape != labels.shape or not steps.numel():
        return False
    return bool((steps < labels).float().mean() >= _TOO_SHORT)


def _is_not_log(values: Any) -> bool:
    positive = (values > _CLOSE).float().mean()
    return (_all(values >= 0) and _any(values > _CLOSE)) or bool(positive > 0.1)


def _rows(prediction: Any) -> Any:
    """Some of the rows of class scores, with the classes along the last axis."""
    values = prediction.detach()
    values = values.movedim(1, -1) if values.dim() > 2 else values
    rows = values.reshape(-1, values.shape[-1])
    return rows[:: max(1, len(rows) // _MOST_ROWS)].float()


def _all(values: Any) -> bool:
    return bool(values.all())


def _any(values: Any) -> bool:
    return bool(values.any())

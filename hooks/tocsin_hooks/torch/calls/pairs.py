"""Predictions and labels of a loss, sample by sample."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from tocsin_hooks.torch.calls.loss_call import LossCall

UNPAIRED = frozenset({"ctc_loss"})
"""Functions whose labels are not in the order of the predictions: the model's outputs are paired
again instead."""

_ELEMENTS = 1 << 16  # of the predictions that are paired again
_LEAST_ROWS = 32
_BY_ELEMENT = frozenset({"binary_cross_entropy", "binary_cross_entropy_with_logits", "mse_loss"})
_PARTS = 8
_LEAST_OF_A_PART = 16  # samples
_WIDEST = 1 << 12  # elements of a sample


class Pair(NamedTuple):
    """Predictions and labels, with the tensors that belong to each."""

    predictions: Mapping[str, Any]
    labels: Mapping[str, Any]


def is_comparable(call: LossCall) -> bool:
    arguments, prediction, target = call.arguments, call.prediction, call.target
    if not (isinstance(prediction, torch.Tensor) and isinstance(target, torch.Tensor)):
        return False
    if call.name in UNPAIRED:
        return False
    if arguments.get("size_average") is not None or arguments.get("reduce") is not None:
        return False
    dense = all(each.layout is torch.strided and not each.is_meta for each in (prediction, target))
    if not dense or not prediction.numel() or not prediction.is_floating_point():
        return False
    if call.has_classes:
        classes = 1 if target.dim() else 0
        return bool(prediction.dim() == target.dim() + 1 and prediction.shape[classes] > 1)
    return bool(prediction.shape == target.shape)


def samples_of(call: LossCall) -> int:
    prediction = call.prediction
    alone = prediction.dim() == 0 or (call.has_classes and prediction.dim() == 1)
    if _is_sequence(call):
        return int(call.target.numel())
    return 1 if alone else len(prediction)


def _is_sequence(call: LossCall) -> bool:
    return bool(call.has_classes and call.prediction.dim() == 3)


def pair_of(call: LossCall) -> Pair:
    if _is_sequence(call):  # (N, C, T) with (N, T): each position is a sample
        scores = call.prediction.detach().movedim(1, -1).flatten(0, -2)
        return Pair({"input": scores}, {"target": call.target.detach().flatten()})
    predictions = {"input": call.prediction.detach()}
    labels = {"target": call.target.detach()}
    shape = call.prediction.shape
    if isinstance(variance := call.arguments.get("var"), torch.Tensor) and shape:
        fits = variance.dim() == len(shape)
        predictions["var"] = (variance if fits else variance.unsqueeze(-1)).detach().expand(shape)
    weight = call.arguments.get("weight")
    if isinstance(weight, torch.Tensor) and call.name in _BY_ELEMENT and shape:
        labels["weight"] = weight.detach().expand(shape)
    return Pair(predictions, labels)


def chosen(call: LossCall, pair: Pair, samples: int, rng: random.Random) -> tuple[Pair, Any]:
    """Return the samples to shuffle, ignored ones last, and how many there are."""
    width = max(1, pair.predictions["input"].numel() // samples)
    most = min(samples, max(_LEAST_ROWS, _ELEMENTS // width))
    ignored = call.has_classes and pair.labels["target"].dim() == 1
    taken = min(samples, 4 * most) if ignored else most
    stride = samples // taken
    start = rng.randrange(samples - stride * (taken - 1)) if taken < samples else 0
    rows = slice(start, start + stride * (taken - 1) + 1, stride)

    def part(tensors: Mapping[str, Any]) -> dict[str, Any]:
        return {name: each[rows] if taken < samples else each for name, each in tensors.items()}

    own = Pair(part(pair.predictions), part(pair.labels))
    if not ignored:
        return own if taken < samples else pair, most
    left_out = own.labels["target"] == call.arguments.get("ignore_index", -100)
    if left_out.device.type == "cpu" and not left_out.any():
        own = own if taken < samples else pair
        return (own if most == taken else _first(own, most)), most
    order = torch.argsort(left_out.to(torch.uint8), stable=True)[:most]
    ordered = (
        {name: each.index_select(0, order) for name, each in tensors.items()} for tensors in own
    )
    return Pair(*ordered), (~left_out).sum().clamp(max=most)


def _first(pair: Pair, most: int) -> Pair:
    return Pair(*({name: each[:most] for name, each in part.items()} for part in pair))


def parts_of(call: LossCall) -> Iterator[LossCall]:
    """Splits the samples of a call: an evaluation that is one call has several comparisons."""
    samples, arguments = len(call.prediction) if call.prediction.dim() else 1, call.arguments
    others = (each for name, each in arguments.items() if name in ("var", "weight"))
    tensors = (each for each in others if isinstance(each, torch.Tensor))
    by_sample = any(each.dim() and len(each) == samples for each in tensors)
    alone = by_sample or (call.has_classes and call.prediction.dim() == 1)
    if alone or samples < _PARTS * _LEAST_OF_A_PART or call.prediction[0].numel() > _WIDEST:
        yield call
        return
    for first in range(_PARTS):
        rows = slice(first, None, _PARTS)
        own = {**arguments, "input": call.prediction[rows], "target": call.target[rows]}
        yield replace(call, arguments=own, value=call.function(**own))

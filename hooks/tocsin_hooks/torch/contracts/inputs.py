"""Contracts on the inputs of a model, and on the labels that belong to them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from tocsin.model import Mode

from tocsin_hooks.leaks import MOST_COLUMNS, MOST_SAMPLES, column_of
from tocsin_hooks.script_line import script_line
from tocsin_hooks.torch import autograd, events
from tocsin_hooks.torch.autograd import name_of
from tocsin_hooks.torch.calls.loss_call import LossCall
from tocsin_hooks.torch.contracts.constant_labels import LABELS_IDENTICAL
from tocsin_hooks.torch.contracts.findings import Findings
from tocsin_hooks.torch.contracts.padding import counts_padding
from tocsin_hooks.torch.graph import before_views
from tocsin_hooks.torch.values import share_memory

_BINARY = "binary_cross_entropy"
_SEVERAL = 8  # pictures
_LEAST_WIDTH = 8
_COLOURS = 3
_OTHER_COLOURS = 1.15  # times the difference of neighbours that are one colour
_MOST = 0.6  # of the pictures

_COPIED = 0.02  # of the loss of a blind guess
_SOON = 300  # training passes in which a model that is to find its input learns to copy it
_SEVERAL_CLASSES = 10
_SEVERAL_LABELS = 64


class InputContracts:
    """Checks the first inputs, and the predictions and labels of the first losses."""

    def __init__(self, found: Findings) -> None:
        self._found = found
        self._passes = 0  # in training
        self._columns: dict[tuple[int, int], str] = {}  # of inputs, which are labels of the step

    def pass_begins(self, _: events.PassBegins) -> None:
        self._passes += self._found.step.mode is Mode.TRAIN

    def updates_skipped(self, event: events.UpdatesSkipped) -> None:
        self._passes += sum(event.updates.values())

    def inputs_given(self, event: events.InputsGiven) -> None:
        inputs = event.inputs.tensors
        if event.first and inputs and self._found.looks("inputs"):
            if are_constant(inputs):
                self._found.count("constant_input", script_line())
            if _are_scrambled(inputs):
                self._found.count("channels_not_permuted", script_line())

    def loss_computed(self, event: events.LossComputed) -> None:
        call, inputs, step = event.call, [*event.inputs], self._found.step
        if not step.saving or not (step.mode is not Mode.TRAIN or call.prediction.requires_grad):
            return
        copies = self._found.has("labels_equal_inputs", call.place)
        if copies and self._passes <= _SOON and _is_copied(call):
            self._found("labels_copied", call.place)
        if self._found.looks_in_step(f"inputs of {call.place}"):
            with torch.no_grad():
                for contract in self._broken(call, inputs):
                    self._found.count(contract, call.place)
                column = _column_of_label(call, inputs)
            if column is not None:
                self._columns[column] = call.place

    def _broken(self, call: LossCall, inputs: list[Any]) -> Iterator[str]:
        if _are_empty_masks(call, inputs) or _are_all_alike(call):
            yield LABELS_IDENTICAL
        if self._found.step.mode is Mode.TRAIN and _have_equal_tokens(call, inputs):
            yield "tokens_identical"
        if _labels_equal_inputs(call, inputs):
            yield "labels_equal_inputs"
        if counts_padding(call, inputs):
            yield "padding_in_loss"

    def saved_step_ends(self, _: events.SavedStepEnds) -> None:
        if (
            len(self._columns) == 1 and self._found.step.passes <= 1
        ):  # several are to be found again
            self._found.count("label_among_inputs", *self._columns.values())
        self._columns.clear()


def _labels_equal_inputs(call: LossCall, inputs: list[Any]) -> bool:
    """Return whether a language model has to predict the same tokens that it gets as input.

    Labels that are themselves given to the model, which computes its loss, are no such tokens.
    """
    target = call.target
    if not call.has_classes or target.numel() < 16 or _all(target == target.flatten()[0]):
        return False
    return any(
        not each.is_floating_point()
        and each.data_ptr() != target.data_ptr()
        and each.numel() == target.numel()
        and each.device == target.device
        and bool((each.flatten() == target.flatten()).float().mean() > 0.99)
        for each in inputs
    )


def _column_of_label(call: LossCall, inputs: list[Any]) -> tuple[int, int] | None:
    """The input and its column that are the label of each sample, if it is one of the numbers that
    the model is given with it. Where it is a view of them, they are to be found again."""
    target = call.target.detach()
    if not target.dim() or target.numel() != len(target) or target.is_complex():
        return None
    if any(each.requires_grad or share_memory(each, target) for each in inputs):
        return None
    tables = [
        each.detach()[:MOST_SAMPLES]
        for each in inputs
        if each.dim() == 2 and each.is_floating_point() and len(each) == len(target)
        if each.shape[1] <= MOST_COLUMNS
    ]
    labels = target[:MOST_SAMPLES].cpu().double().numpy()
    found = (column_of(labels, each.cpu().double().numpy()) for each in tables)
    return next(((at, column) for at, column in enumerate(found) if column is not None), None)


def _is_copied(call: LossCall) -> bool:
    """Return whether a classification loss is almost 0 compared with that of a guess."""
    classes = call.prediction.shape[1 if call.prediction.dim() > 1 else 0]
    blind = math.log(max(2, classes))
    return call.has_classes and bool(call.value.detach().mean() < _COPIED * blind)


def are_constant(inputs: list[Any]) -> bool:
    """Return whether all samples of a batch are the same in every input of the model."""
    given = _samples_of(inputs)
    return bool(given) and given[0].is_floating_point() and _are_all_the_same(given)


def _have_equal_tokens(call: LossCall, inputs: list[Any]) -> bool:
    """Return whether all samples of a batch have the same tokens, and other classes."""
    given = _samples_of(inputs)
    labels = call.target
    if not (given and call.has_classes and labels.dim() == 1 and len(labels) == len(given[0])):
        return False
    tokens = not given[0].is_floating_point() and given[0].dim() == 2 < given[0].shape[1]
    return tokens and _are_all_the_same(given) and not _all(labels == labels[0])


def _samples_of(inputs: list[Any]) -> list[Any]:
    return [each for each in inputs if each.dim() > 0 and each.numel()]


def _are_all_the_same(given: list[Any]) -> bool:
    return all(len(each) >= 8 and _all(each == each[:1]) for each in given)


def _are_all_alike(call: LossCall) -> bool:
    """Return whether many labels are all the same one of many classes.

    The first may say where a positive sample stands, unless a linear layer gives the scores; it and
    the last may stand for the rest as well.
    """
    if not call.has_classes or not call.prediction.is_floating_point():
        return False
    classes = call.prediction.shape[1 if call.prediction.dim() > 1 else 0]
    labels = call.target[call.target != call.arguments.get("ignore_index", -100)]
    if classes < _SEVERAL_CLASSES or len(labels) < _SEVERAL_LABELS:
        return False
    first = (
        0
        if call.target.dim() == 1
        and name_of(before_views(call.prediction.grad_fn)) == autograd.LINEAR
        else 1
    )
    return first <= int(labels[0]) < classes - 1 and _all(labels == labels[0])


def _all(values: Any) -> bool:
    return bool(values.all())


def _are_empty_masks(call: LossCall, inputs: list[Any]) -> bool:
    """Return whether all labels of the pixels of several pictures are 0, where the model says
    something of each pixel. Judges of patches, which labels of theirs are real, say less."""
    prediction, target = call.prediction, call.target
    judged = call.has_classes or call.name.startswith(_BINARY)
    if not judged or not target.dim() or len(target) < _SEVERAL:
        return False
    size = tuple(prediction.shape[2:])
    of_pixels = len(size) == 2 and min(size) >= _LEAST_WIDTH
    same = (each.dim() == 4 and tuple(each.shape[2:]) == size for each in inputs)
    return of_pixels and any(same) and bool((target == 0).all())


def _are_scrambled(inputs: list[Any]) -> bool:
    """Return whether pictures (N, 3, H, W) hold the numbers of pictures (N, H, W, 3) in their
    order: there the third number is more like one than its neighbour is, for it has the same
    colour."""
    return any(_is_scrambled(each.detach()) for each in inputs if _are_pictures(each))


def _are_pictures(each: Any) -> bool:
    shaped = each.dim() == 4 and each.shape[1] == _COLOURS and each.is_floating_point()
    return shaped and len(each) >= _SEVERAL and min(each.shape[2:]) >= _LEAST_WIDTH


def _is_scrambled(pictures: Any) -> bool:
    near, far = (
        (pictures[..., :-apart] - pictures[..., apart:]).abs().mean((1, 2, 3)) for apart in (1, 3)
    )
    return bool((near.mean() > _OTHER_COLOURS * far.mean()) & (near > far).float().mean().gt(_MOST))

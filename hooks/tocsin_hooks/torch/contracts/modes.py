"""Contracts on a model's mode: ``train()`` for training, ``eval()`` for evaluations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any
from weakref import WeakSet, ref

import torch
from torch.nn.parameter import is_lazy

from tocsin_hooks.script_line import script_line
from tocsin_hooks.torch import events
from tocsin_hooks.torch.autograd import BATCH_NORM, DROPOUT
from tocsin_hooks.torch.contracts.findings import Findings
from tocsin_hooks.torch.gradients import parameters_of
from tocsin_hooks.torch.graph import before_views

_MOST_DROPPED = 0.85  # of a layer: more is a share that is to be kept

_IN_A_ROW = 3
_APART = 10  # updates between two evaluations; closer passes prepare a step
_MOST_LOOKS = 200  # at all modules
_INITIAL = 0.5  # of running statistics
_BATCHES = 50  # that they have seen; fewer are a trial


class ModeContracts:
    """Checks all passes of a model: ``model.train()`` is often forgotten after an evaluation."""

    def __init__(self, found: Findings) -> None:
        self._found = found
        self._updates = 0
        self._in_a_row = Counter[int]()  # updates in eval mode, by optimizer
        self._in_eval = False  # the last forward pass with gradients was one in eval mode
        self._evaluated = 0  # passes in training mode without gradients since the last update
        self._evaluations = 0
        self._last_evaluation = 0
        self._first_evaluation = ""  # its line
        self._looks = 0
        self._root: Callable[[], Any] = lambda: None
        self._dropped = 0  # in eval mode, since it was in training mode

    def model_called(self, event: events.ModelCalled) -> None:
        """Count passes in the wrong mode. Those before any loss may fill a memory."""
        root = event.model
        self._root = ref(root)
        if torch.is_grad_enabled():
            self._in_eval = not root.training
            return
        if not root.training or event.alone:
            return
        self._evaluated += 1
        apart = self._updates - self._last_evaluation >= _APART
        if self._evaluated >= _IN_A_ROW and apart and event.judged and self._acts_otherwise(root):
            self._evaluations += 1
            self._last_evaluation = self._updates
            if self._evaluations == 1:
                self._first_evaluation = script_line()
            else:
                self._found("train_mode_while_evaluating")

    def training_ends(self, _: events.TrainingEnds) -> None:
        """Judge an only evaluation, if no update came after it: else it may have prepared them."""
        if self._evaluations == 1 and self._last_evaluation == self._updates:
            self._found("train_mode_while_evaluating", self._first_evaluation)

    def dropped(self, _: events.Dropped) -> None:
        """Dropout has dropped something in an evaluation. Where modules of it are in training mode,
        the model in none, that is meant: its outputs are to vary."""
        root = self._root()
        evaluates = self._found.step.evaluates and not torch.is_grad_enabled()
        if evaluates and root is not None and not root.training:
            self._dropped += 1
            if self._dropped == _IN_A_ROW and not _drops_by_intent(root):
                self._found("dropout_in_evaluation")

    def update_begins(self, event: events.UpdateBegins) -> None:
        key, held = id(event.optimizer), parameters_of(event.optimizer)
        if not (self._in_eval and any(each.grad is not None for each in held)):
            self._in_a_row[key] = 0
        elif self._in_a_row[key] < _IN_A_ROW and self._acts_otherwise(event.model):
            self._in_a_row[key] += 1
            if self._in_a_row[key] == _IN_A_ROW:
                self._found("eval_mode_while_training")

    def update_ends(self, _: events.UpdateEnds) -> None:
        self._updates += 1
        self._evaluated = 0
        self._in_eval = False

    def updates_skipped(self, event: events.UpdatesSkipped) -> None:
        self._updates += sum(event.updates.values())

    def _acts_otherwise(self, root: Any) -> bool:
        """Return whether a model computes something else in training than in evaluation mode."""
        self._looks += 1
        return self._looks <= _MOST_LOOKS and any(
            (isinstance(each, BATCH_NORM) and each.training is root.training and _learns(each))
            or (isinstance(each, DROPOUT) and each.training is root.training and each.p > 0)
            for each in root.modules()
        )


def _drops_by_intent(root: Any) -> bool:
    return any(isinstance(each, DROPOUT) and each.training for each in root.modules())


def _learns(norm: Any) -> bool:
    """Return whether it keeps statistics, and has not been set to compute them again
    (``update_bn``)."""
    return bool(norm.track_running_stats) and norm.momentum is not None


class RunningStatistics:
    """Judges the running statistics of batch normalisation as they were in the last evaluation:
    later the model may be gone. Those that were loaded are those of an earlier training."""

    def __init__(self, found: Findings) -> None:
        self._found = found
        self._fresh: WeakSet[Any] | None = None  # modules whose statistics began as they are made
        self._updated = False  # since the last evaluation
        self._lag = ""  # the line of the last evaluation, if they lagged in it

    def model_called(self, event: events.ModelCalled) -> None:
        root = event.model
        if self._fresh is None:
            self._fresh = WeakSet()
            self._fresh.update(each for each in root.modules() if _is_fresh(each))
        if self._updated and not root.training and not torch.is_grad_enabled():
            self._updated = False
            self._lag = script_line() if any(map(_lags, self._fresh)) else ""

    def update_ends(self, _: events.UpdateEnds) -> None:
        self._updated = True

    def updates_skipped(self, _: events.UpdatesSkipped) -> None:
        self._updated = True

    def training_ends(self, _: events.TrainingEnds) -> None:
        if self._lag:
            self._found("batch_norm_momentum_too_small", self._lag)


def _is_fresh(module: Any) -> bool:
    """Return whether it has running statistics at their initial values. Waits for the device."""
    if not (isinstance(module, BATCH_NORM) and _learns(module)):
        return False
    mean, variance = module.running_mean, module.running_var
    return is_lazy(mean) or bool((mean == 0).all() & (variance == 1).all())


def _lags(norm: Any) -> bool:
    """Return whether its running statistics still consist mostly of their initial values. Waits for
    the device.
    """
    batches = int(norm.num_batches_tracked)
    return batches >= _BATCHES and (1 - norm.momentum) ** batches > _INITIAL


class Dropouts:
    """Follows what dropouts give in training, until a loss compares it."""

    def __init__(self, found: Findings) -> None:
        self._found = found
        self._nodes = set[Any]()

    def loss_forgotten(self, _: events.LossForgotten) -> None:
        self._nodes.clear()

    def dropped(self, event: events.Dropped) -> None:
        if self._found.step.evaluates:
            return
        if event.found.grad_fn is not None:  # else the inputs are dropped, which need no gradients
            self._nodes.add(event.found.grad_fn)
        is_one = event.found.dim() == 2 and event.found.shape[1] == 1 < len(event.found)
        if event.share >= _MOST_DROPPED or (is_one and event.found.grad_fn is not None):
            self._found("dropout_too_large")

    def loss_computed(self, event: events.LossComputed) -> None:
        if self._found.step.saving and before_views(event.prediction.grad_fn) in self._nodes:
            self._found("dropout_on_output", event.place)

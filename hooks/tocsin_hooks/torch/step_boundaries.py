"""Boundaries of training steps: forward passes, or updates if forward passes are not visible."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

import torch
from tocsin.model import Mode

from tocsin_hooks.torch.capture.captured import CurrentStep
from tocsin_hooks.torch.capture.parameters import (
    LastGradient,
    Parameters,
    has_gradients,
    without_gradients,
)
from tocsin_hooks.torch.evaluations import EvaluationDetector, ModeArgument, samples_of
from tocsin_hooks.torch.names import class_name
from tocsin_hooks.torch.outermost_calls import Call, EvaluatedParts, evaluates
from tocsin_hooks.torch.owed_saves import OwedSaves
from tocsin_hooks.torch.steps import StepDetector, Turns
from tocsin_hooks.torch.values import tensors_in

_log = logging.getLogger("tocsin")
_MOST_TENSORS = 8  # of one call of the model
_BY_THE_LOOP = 8
"""After so many steps a loop is taken to update the model by itself. Before that an optimizer may
just have been skipped: with loss scaling the first gradients often overflow."""


class ForwardPass(NamedTuple):
    """A call of the model: whether it ``trains``, its number of ``samples``, and whether it is part
    of a step at all."""

    trains: bool
    samples: int
    in_step: bool


class StepBoundaries:
    """Calls ``begin`` with the mode at the start of each step.

    An update is followed by a forward pass, or else that pass is not seen: it is compiled with the
    hooks in it, or ``model.forward`` is called by itself. Then the next step begins ahead of its
    passes, at the update.
    """

    def __init__(
        self,
        step: CurrentStep,
        parameters: Parameters,
        accumulate: int | None,
        begin: Callable[[Mode], None],
    ) -> None:
        self.evaluations = EvaluationDetector()
        self._step = step
        self._parameters = parameters
        self._begin_step = begin
        self._steps = StepDetector(accumulate)
        self._turns = Turns()
        self._argument = ModeArgument()
        self._gradient = LastGradient()
        self._unknown = _UnknownUpdates(parameters, self._steps)
        self._updated_since_forward: set[int] = set()  # identities of optimizers
        self._seen_forward = False
        self._parts = EvaluatedParts()
        self._owed = OwedSaves()
        self.is_ahead = False
        """Whether the step in hand was begun ahead of its forward passes."""

    def turn(self, mode: Mode) -> int | None:
        """Return the number of the next step among those of its optimizer, where several take
        turns."""
        if mode is Mode.TRAIN and self._owed.is_due:
            return 0
        return self._turns.next() if mode is Mode.TRAIN else None

    def owe(self) -> None:
        """Save the next step of training in place of an earlier one."""
        self._owed.owe()

    def _begin(self, mode: Mode) -> None:
        step = self._step
        if step.trains:
            loss = step.has_losses or not step.hook.saves_nothing
            self._owed.ends(saved=step.saving, with_loss=loss)
        self._begin_step(mode)
        if mode is Mode.TRAIN and self._owed.begins(due=step.saving):
            step.leave_out()

    @property
    def is_first_pass(self) -> bool:
        """Return whether the pass in hand is the first that trains the model."""
        return self._step.trains and self._step.passes == 1 and self._steps.is_first

    @property
    def turns(self) -> Iterable[int | None]:
        """Return what may count for the interval: the steps (None), or the updates so far by each
        of several optimizers."""
        return None, *self._turns.counts

    @property
    def acts(self) -> bool:
        """Return whether a pass without gradients in training mode is acting, and no evaluation."""
        by_parts = self.is_ahead and not self._seen_forward
        none = by_parts or self.evaluations.are_none(self._step.without_meaning)
        return self.evaluations.acts and none

    def skipped(
        self, steps: int, updates: Mapping[Any, int], latest: Iterable[Iterable[Any]]
    ) -> None:
        """So many steps like the last ones have gone by, with the updates by each optimizer;
        ``latest`` are the optimizers of the last of these steps, in their order."""
        self._steps.begun += steps
        for optimizer, number in updates.items():
            self._turns.skipped(optimizer, number)
            if self._parameters.holds(optimizer):
                self.evaluations.skipped(number)
        for updated in ([*each] for each in latest):
            self._turns.latest(updated)
            if any(map(self._parameters.holds, updated)):
                self._owed.updated()
            self._owed.ends(saved=False, with_loss=False)

    @property
    def is_updated_by_the_loop(self) -> bool:
        """Return whether the loop updates the model by itself, without an optimizer."""
        return self._unknown.are_by_the_loop

    # Forward passes.

    def classify(self, root: Any, args: Any, kwargs: Any, *, training: bool) -> ForwardPass:
        """Return whether a call of the model that is about to begin, in the mode of ``training`` or
        not, trains it, and is part of a step."""
        between = training
        training = training and not self._argument.evaluates(kwargs)
        trains = training and torch.is_grad_enabled()
        samples = samples_of(args, kwargs)
        in_step = trains or not (
            self._is_in_between(training=between)
            or self.evaluations.is_none(
                training,
                samples,
                meant=self._step.evaluates and self._step.is_meant,
                without_meaning=self._step.without_meaning,
            )
        )
        return ForwardPass(trains, samples, in_step)

    def _is_in_between(self, *, training: bool) -> bool:
        """Return whether a training step needs a further output, of which no gradients are
        computed: the value of the last state, as a rule. An evaluation comes after an update."""
        begun = self._step.trains and self._seen_forward and not self._updated_since_forward
        found = begun and training and not self._parameters.updated_by_nobody
        if found:
            self.evaluations.acted()
        return found

    def forward_begins(self, call: ForwardPass, root: Any, args: Any, kwargs: Any) -> None:
        """A pass begins that is part of a step: of a new one, or of the one in hand."""
        self._seen_forward, self.is_ahead = True, False
        self._updated_since_forward.clear()
        if not call.trains:
            self._evaluate()
        elif self._steps.begins(
            partial(_is_free, root, args, kwargs), lambda: self._gradient.is_there
        ):
            self._begin(Mode.TRAIN)
        if call.trains:
            self.evaluations.trained(call.samples)
        self._step.passes += 1
        self._step.samples = 1 if call.trains else call.samples  # micro-batches count alike
        self._step.again = self._steps.again

    def _evaluate(self) -> None:
        """Begin a step of EVAL, or go on with one."""
        self._steps.left()
        meant = self._step.is_meant or self._step.has_losses
        if self.evaluations.begins(goes_on=self._step.evaluates, meant=meant):
            self._begin(Mode.EVAL)
            meant = False
        self._step.is_meant = meant or self.evaluations.is_meant

    def part_begins(self, call: Call) -> None:
        """A part of the model is trained by itself."""
        self.evaluations.trained(samples_of(call.args, call.kwargs), call.name)

    def is_trained_again(self, name: str) -> bool:
        """Record a call of a part with gradients. Return whether it ends an evaluation of parts."""
        self._parts.trained(name)
        return self.evaluates_parts

    def is_evaluated(self, root: Any, name: str, args: Any, kwargs: Any) -> bool:
        """Record a call of a part without gradients. Return whether an evaluation's pass begins."""
        if self._seen_forward or not evaluates(root) or not self._parts.begins(name):
            return False
        return not self.evaluations.is_none(
            False,
            samples_of(args, kwargs),
            meant=self._step.evaluates and self._step.is_meant,
            without_meaning=self._step.without_meaning,
        )

    def evaluate_parts(self, args: Any, kwargs: Any) -> None:
        """Begin that pass, whose parts are called one by one."""
        if self.is_ahead:  # the step of training in hand was begun too early
            if self._step.saving:
                self._owed.owe()
            self.is_ahead = False
            self._step.leave_out()
        self._evaluate()
        self._step.passes += 1
        self._step.samples = samples_of(args, kwargs)

    @property
    def evaluates_parts(self) -> bool:
        """Return whether the step in hand is an evaluation of a model that is not called itself."""
        return self._step.evaluates and not self._seen_forward

    def begin_evaluation(self) -> None:
        """Begin a step of EVAL that has no forward pass."""
        self._steps.left()
        self._begin(Mode.EVAL)

    # Updates.

    def begin_ahead(self) -> None:
        """Begin the next step of TRAIN, whose forward passes are not seen."""
        self.is_ahead = True
        self._begin(Mode.TRAIN)

    def is_unseen(self, optimizer: Any) -> bool:
        """Return whether the forward passes before an update by that optimizer were not seen."""
        return id(optimizer) in self._updated_since_forward or not self._seen_forward

    def updating(self) -> None:
        """An optimizer begins to update the model, and computes the loss by itself."""
        self._steps.updating()

    def updated(self, optimizer: Any) -> bool:
        """Record an update of the model by an optimizer. Return whether that ``is_unseen``."""
        self._argument.updated()
        self._owed.updated()
        self._gradient.updated(optimizer)
        self._steps.updated()
        self.evaluations.updated()
        self._turns.updated(optimizer)
        unseen = self.is_unseen(optimizer)
        self._updated_since_forward.add(id(optimizer))
        return unseen

    def updated_elsewhere(self, root: Any, optimizer: Any) -> None:
        """Handle an update of something other than the model."""
        if self._unknown.updated_elsewhere(root, optimizer):
            self._owed.updated()
            self._steps.updated()
            self.evaluations.updated()


def _is_free(root: Any, args: Any, kwargs: Any) -> bool:
    """Return whether a pass may begin a step: there are no gradients yet, and it is not given what
    another pass has computed, as the state of a recurrent model."""
    given = (each for _, each in tensors_in((args, kwargs), _MOST_TENSORS))
    return without_gradients(root) and all(each.grad_fn is None for each in given)


class _UnknownUpdates:
    """Knows whether the loop updates the model by itself, and counts updates of something else."""

    def __init__(self, parameters: Parameters, steps: StepDetector) -> None:
        self._parameters = parameters
        self._steps = steps
        self._elsewhere = 0

    @property
    def are_by_the_loop(self) -> bool:
        return self._parameters.updated_by_nobody and self._steps.begun > _BY_THE_LOOP

    def updated_elsewhere(self, root: Any, optimizer: Any) -> bool:
        """Record an update of something else. Return whether its steps count, as no other is seen:
        then the log says once that the optimizer does not hold the model."""
        if not self._parameters.updated_by_nobody:
            return False
        self._elsewhere += has_gradients(root)
        if self._elsewhere == _BY_THE_LOOP:
            self._elsewhere += 1
            _log.warning(
                "no optimizer has updated the %s so far: the %s holds other parameters. Create the "
                "optimizer after the model, its copies and its new layers",
                class_name(root),
                type(optimizer).__name__,
            )
        return True

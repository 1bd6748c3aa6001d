"""A training as PyTorch calls back about it: forward passes, updates, and the steps they make."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any
from weakref import finalize, ref

import torch
from tocsin.model import ACTING, COMPETING, Mode
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from tocsin_hooks.guard import Guard, Report
from tocsin_hooks.torch.callbacks import (
    TrainingStopped,
    called,
    closure_of,
    compilations,
    is_elsewhere,
    weakly,
)
from tocsin_hooks.torch.capture.captured import StepInHand
from tocsin_hooks.torch.capture.forward import ForwardCapture
from tocsin_hooks.torch.capture.parameters import LastGradient, Parameters, without_gradients
from tocsin_hooks.torch.checks import Checks
from tocsin_hooks.torch.evaluations import EvaluationDetector, ModeArgument, samples_of
from tocsin_hooks.torch.names import input_name, is_compiled, output_name, unwrapped
from tocsin_hooks.torch.outermost_calls import Call, EvaluatedParts, OutermostCalls, evaluates
from tocsin_hooks.torch.root import ModelHooks, owners
from tocsin_hooks.torch.steps import StepDetector, Turns
from tocsin_hooks.torch.timing import TrainingTiming
from tocsin_hooks.torch.unknown_updates import UnknownUpdates
from tocsin_hooks.torch.values import tensors_in

_MOST_TENSORS = 8  # of one call of the model


class ModelTraining:
    """Knows what happens to a model, and has each step of it captured.

    A step of training begins with a forward pass, or where forward passes are not seen, with an
    update by an optimizer. Losses, activations and parameters are captured in it where it is saved.
    """

    def __init__(
        self,
        step: StepInHand,
        losses: Iterable[Any],
        accumulate: int | None,
        *,
        raise_on_stop: bool,
    ) -> None:
        self.step = step
        self.evaluations = EvaluationDetector()
        self._steps = StepDetector(accumulate)
        self._turns = Turns()
        self._timing = TrainingTiming(step.hook)
        self._raise_on_stop = raise_on_stop
        self._forward = ForwardCapture(step, losses)
        self.loss = self._forward.loss
        self._parameters = Parameters(step)
        self._gradient = LastGradient()
        self._argument = ModeArgument()
        self._unknown = UnknownUpdates(self._parameters, self._steps)
        self._checks = Checks(step, self.loss)
        self._model: Callable[[], Any] = lambda: None
        self._inside: Any = None  # the module whose forward pass we are in
        self._paused = False
        self._updated_since_forward: set[int] = set()  # identities of optimizers
        self._seen_forward = False
        self._ahead = False  # the step in hand was begun without a forward pass
        self._compilations_before = compilations()
        self._backward: Any = None
        self._find_compiled: Callable[[], bool] = lambda: False
        self._parts: OutermostCalls | None = None
        self._evaluated = EvaluatedParts()
        self._left_out = False  # a step that was to be saved, as an evaluation came before it

    def watch(self, model: Any, owner: Any, ended: Callable[[], object]) -> Callable[[], None]:
        """Have PyTorch call back. Returns what takes it all back.

        The model keeps ``owner`` alive, and nothing keeps the model; ``ended`` is called when it
        has died. An earlier owner is closed. Raises TypeError for what is not a module.
        """
        if not isinstance(model, torch.nn.Module):
            raise TypeError("it is not a torch.nn.Module")
        root = unwrapped(model)
        for earlier in owners(root):
            earlier.close()
        self._model = ref(root)
        watched = ModelHooks(model, owner, self.forward_begins, self.forward_ends)
        self._find_compiled = watched.find_compiled
        before = register_optimizer_step_pre_hook(weakly(self._optimizer_begins))
        after = register_optimizer_step_post_hook(weakly(self._optimizer_ends))
        atexit.register(self._end)  # before the hook's own, which writes what is waiting
        report = self.step.hook.trouble
        undo = (
            self._forward.close,
            self.loss.close,
            self._checks.close,
            watched.remove,
            self._release_parts,
            before.remove,
            after.remove,
            partial(atexit.unregister, self._end),
            self._end,
        )
        death = finalize(root, _call_all, report, (*undo, ended))
        death.atexit = False

        def release() -> None:
            self._close_windows()
            death.detach()
            _call_all(report, undo)

        return release

    # For those who know better than PyTorch's hooks when a model is called.

    def pause(self) -> None:
        """From now on forward passes are neither steps nor captured."""
        self._close_windows()
        self._inside, self._paused = None, True

    def resume(self) -> None:
        """An evaluation has ended: what comes now are steps again."""
        self.step.end()
        self._paused = False

    def begin_evaluation(self) -> None:
        """Begin a step of mode EVAL that has no forward pass."""
        self._close_windows()
        self._steps.left()
        self._begin(Mode.EVAL)

    # What PyTorch calls.

    @called
    def forward_begins(self, module: Any, args: Any, kwargs: Any) -> None:
        root = self._model()
        within = self._inside is not None and self._inside() not in (None, module)
        if root is None or self._paused or within or is_elsewhere(module):
            return
        training = root.training and not self._argument.evaluates(kwargs)
        trains = training and torch.is_grad_enabled()
        samples = samples_of(args, kwargs)
        in_between = not trains and self._asks_in_between(root)
        if in_between:
            self.evaluations.acted()
        if in_between or (
            not trains
            and self.evaluations.is_none(
                training,
                samples,
                meant=self.step.evaluates and self.step.is_meant,
                without_meaning=self.step.without_meaning,
            )
        ):
            self._checks.acts(root, alone=samples == 1)
            return
        self._inside = ref(module)
        self._checks.pause()
        self._close_capture()
        self._forward.begin_pass()
        self._seen_forward, self._ahead = True, False
        self._updated_since_forward.clear()
        if not trains:
            self._begin_evaluating()
        elif self._steps.begins(
            partial(_is_free, root, args, kwargs), lambda: self._gradient.is_there
        ):
            self._begin(Mode.TRAIN)
        if trains:
            self.evaluations.trained(samples)
            self._timing.forward_begins(root)
        self.step.passes += 1
        self.step.samples = 1 if trains else samples  # micro-batches count alike
        self.step.again = self._steps.again
        self._checks.forward_begins(root, args, kwargs, compiled=is_compiled(module))
        if self.step.saving:
            self._forward.begins(root, args, kwargs, compiled=is_compiled(module))
            if self.step.passes == 1 and root.training and self._unknown.are_by_the_loop:
                self._backward = self._parameters.capture_at_backward(root)

    def _asks_in_between(self, root: Any) -> bool:
        """Whether a training step needs a further output, of which no gradients are computed: the
        value of the last state, as a rule. An evaluation comes after an update."""
        begun = self.step.trains and self._seen_forward and not self._updated_since_forward
        return begun and bool(root.training) and not self._parameters.updated_by_nobody

    def _begin_evaluating(self) -> None:
        """Begin a step of EVAL, or go on with one."""
        self._steps.left()
        meant = self.step.is_meant or self.step.has_losses
        if self.evaluations.begins(goes_on=self.step.evaluates, meant=meant):
            self._begin(Mode.EVAL)
            meant = False
        self.step.is_meant = meant or self.evaluations.is_meant

    @called
    def forward_ends(self, module: Any, args: Any, kwargs: Any, output: Any) -> None:
        root = self._model()
        if root is None or self._inside is None or self._inside() is not module:
            return
        self._inside = None
        self._timing.forward_ends()
        self._forward.close()
        self._checks.forward_ends(root, output, compiled=is_compiled(module))
        if self.step.saving and output is not None:
            self._forward.ends(root, output, compiled=is_compiled(module))

    def model_called(self, call: Call) -> None:
        """A forward pass goes on after a call in it of the model, or of a part: its loss is next.

        Captures what goes into the first one, and what comes out of the whole model.
        """
        if not self._paused:
            self._checks.model_called(call)
        if not self.step.saving or self.step.passes > 1:
            return
        if call.first:
            inputs = tensors_in((call.args, call.kwargs), _MOST_TENSORS)
            self.step.add_named([(input_name(call.name, label), each) for label, each in inputs])
        if call.whole:
            for label, each in tensors_in(call.output, _MOST_TENSORS):
                self.step.add_output(output_name(call.name, label), each)

    def breaks(self, contract: str, place: str) -> None:
        """The trainer breaks a contract, in that line."""
        self._checks.breaks(contract, place)

    @called
    def _optimizer_begins(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        root = self._model()
        if root is None:
            return
        held, closure = self._parameters.hold(optimizer, root), closure_of(args, kwargs)
        self._checks.update_begins(root, optimizer, held=held, closure=closure is not None)
        if held and closure is None:
            self._before_update(root, optimizer)
        elif held:
            self._steps.updating()

    @called
    def _optimizer_ends(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        root = self._model()
        if root is None:
            return
        if not self._parameters.hold(optimizer, root):
            if self._unknown.updated_elsewhere(root, optimizer):
                self._steps.updated()
                self.evaluations.updated()
            return
        if closure_of(args, kwargs) is not None:  # it computed the gradients in between
            self._before_update(root, optimizer)
        self._checks.update_ends(root, optimizer)
        self._timing.update_ends()
        self._argument.updated()
        self._gradient.updated(optimizer)
        self._steps.updated()
        self.evaluations.updated()
        self._turns.updated(optimizer)
        unseen = id(optimizer) in self._updated_since_forward or not self._seen_forward
        self._updated_since_forward.add(id(optimizer))
        if unseen and not self._find_compiled():
            self._begin_ahead()

    def _before_update(self, root: Any, optimizer: Any) -> None:
        unseen = id(optimizer) in self._updated_since_forward or not self._seen_forward
        if unseen and not self._ahead:
            self._begin_ahead()
        if self.step.saving:
            self._close_windows()
            self._parameters.capture(root, optimizer)

    # Steps.

    def _begin(self, mode: Mode, turn: int | None = None) -> None:
        self.step.end()
        if self._raise_on_stop and self.step.hook.should_stop:
            raise TrainingStopped("a stop was requested")
        self._parameters.begin()
        self.loss.begin()
        if self.step.loss_kind != COMPETING:
            acts = self.evaluations.acts or self._checks.draws
            self.step.loss_kind = ACTING if acts else None
        if turn is None and mode is Mode.TRAIN:
            turn = self._turns.next()
        self.step.begin(mode, turn)

    def _end(self) -> None:
        """No step comes after the one in hand."""
        with Guard(self.step.hook.trouble, "schedules are not checked"):
            self._checks.training_ends(self._model())
        self.step.end()
        if self._checks.has_more:  # which is known at the end only
            self.step.begin(Mode.TRAIN, turn=0)
            self.step.end()

    def _begin_ahead(self, turn: int | None = None) -> None:
        """Begin the next training step where forward passes are not seen, at an optimizer's step:
        they are compiled with the hooks in them, or ``model.forward`` is called by itself.
        After an evaluation of parts it begins with the first of these.
        """
        self._ahead = True
        self._forward.begin_pass()
        self._begin(Mode.TRAIN, turn)
        root = self._model()
        if root is not None:
            self._checks.step_begins(compiled=is_compiled(root))
            self._watch_parts(root)
        self.step.passes = 1
        if self.step.saving:
            # A function that is compiled with the model in it would be compiled again each time
            # that there is another global hook, until PyTorch gives it up. What was compiled
            # before the model was watched may be something else, as in a notebook.
            compiled = compilations() != self._compilations_before
            self._forward.without_forward(root, globally=not compiled or is_compiled(root))

    def _watch_parts(self, root: Any) -> None:
        """Look at calls of parts of a model that is not called itself."""
        if self._parts is None and compilations() == self._compilations_before:
            aside = weakly(self.evaluations.called_aside)
            begins = weakly(self._part_begins)
            self._parts = OutermostCalls(root, weakly(self._part_called), aside, begins)
        if self._parts is not None:
            self._parts.begin()

    @called
    def _part_begins(self, name: str, args: Any, kwargs: Any) -> None:
        """A part of a model that is not called itself is called."""
        root = self._model()
        if root is None or self._paused or self._seen_forward:
            return
        if torch.is_grad_enabled():
            self._evaluated.trained(name)
            if self.step.evaluates:
                self._begin_ahead(turn=0 if self._left_out else None)
        elif evaluates(root) and self._evaluated.begins(name):
            self._begin_evaluating_parts(root, samples_of(args, kwargs))

    def _begin_evaluating_parts(self, root: Any, samples: int) -> None:
        """Begin a pass of an evaluation whose parts are called one by one."""
        meant = self.step.evaluates and self.step.is_meant
        if self.evaluations.is_none(
            False, samples, meant=meant, without_meaning=self.step.without_meaning
        ):
            return
        self._checks.pause()
        self._close_capture()
        self._forward.begin_pass()
        if self._ahead:  # a step of training was begun too early
            self._left_out, self._ahead = self.step.saving, False
            self.step.hook.leave_out()
        self._begin_evaluating()
        self.step.passes += 1
        self.step.samples = samples
        self._checks.forward_begins(root, (), {}, compiled=False)
        self._checks.forward_ends(root, (), compiled=False)
        if self.step.saving:
            self._forward.ends(root, (), compiled=False)
        if self._parts is not None:
            self._parts.begin_pass()

    @called
    def _part_called(self, call: Call) -> None:
        trains = self._ahead and torch.is_grad_enabled()
        evaluates = self.step.evaluates and not self._seen_forward
        if (trains or evaluates) and not call.whole and not self._paused:
            self.model_called(call)

    def _release_parts(self) -> None:
        if self._parts is not None:
            self._parts.remove()
            self._parts = None

    def _close_windows(self) -> None:
        self._checks.close()
        self._close_capture()

    def _close_capture(self) -> None:
        self._forward.close()
        if self._backward is not None:
            self._backward.remove()
            self._backward = None


def _is_free(root: Any, args: Any, kwargs: Any) -> bool:
    """Whether a pass may begin a step: there are no gradients yet, and it is not given what another
    pass has computed, as the state of a recurrent model."""
    given = (each for _, each in tensors_in((args, kwargs), _MOST_TENSORS))
    return without_gradients(root) and all(each.grad_fn is None for each in given)


def _call_all(report: Report, functions: Iterable[Callable[[], object]]) -> None:
    for function in functions:
        with Guard(report, "a part of the hook is still attached"):
            function()

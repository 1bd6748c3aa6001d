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
from tocsin_hooks.stop import TrainingStopped
from tocsin_hooks.torch.autograd import compilations
from tocsin_hooks.torch.callbacks import (
    UpdateHook,
    called,
    closure_of,
    is_elsewhere,
    weakly,
)
from tocsin_hooks.torch.capture.captured import CurrentStep
from tocsin_hooks.torch.capture.forward import ForwardCapture
from tocsin_hooks.torch.capture.parameters import Parameters
from tocsin_hooks.torch.checks import Checks
from tocsin_hooks.torch.custom.check import Check
from tocsin_hooks.torch.custom.running import CustomChecks
from tocsin_hooks.torch.events import ModelCalled, UpdatesSkipped
from tocsin_hooks.torch.idle import IdleSteps
from tocsin_hooks.torch.intervals import Intervals
from tocsin_hooks.torch.moves import Skipped
from tocsin_hooks.torch.names import input_name, is_compiled, output_name, unwrapped
from tocsin_hooks.torch.outermost_calls import Call, OutermostCalls
from tocsin_hooks.torch.root import ModelHooks, owners
from tocsin_hooks.torch.step_boundaries import StepBoundaries
from tocsin_hooks.torch.timing import TrainingTiming
from tocsin_hooks.torch.update_guard import UpdateGuard
from tocsin_hooks.torch.values import tensors_in

_MOST_TENSORS = 8  # of one call of the model


class ModelTraining:
    """Knows what happens to a model, and has each step of it captured.

    A step of training begins with a forward pass, or where forward passes are not seen, with an
    update by an optimizer. Losses, activations and parameters are captured in it where it is saved.
    """

    def __init__(
        self,
        step: CurrentStep,
        losses: Iterable[Any],
        accumulate: int | None,
        *,
        raise_on_stop: bool,
        guard: bool = False,
    ) -> None:
        self.step = step
        self._timing = TrainingTiming(step.hook)
        self._raise_on_stop = raise_on_stop
        self._forward = ForwardCapture(step, losses)
        self.loss = self._forward.loss
        self._parameters = Parameters(step)
        self._boundaries = StepBoundaries(step, self._parameters, accumulate, self._begin)
        self.evaluations = self._boundaries.evaluations
        self._checks = Checks(step, self.loss)
        self._guards = guard
        self._guard = UpdateGuard(step, self._update_skipped)
        step.before_end.append(self._guard.capture)
        self._intervals = Intervals(step)
        self._model: Callable[[], Any] = lambda: None
        self._inside: Any = None  # the module whose forward pass we are in
        self._paused = False
        self._looks = True  # at what has happened since the last pass began
        self._compilations_before = compilations()
        self._backward: Any = None
        self._find_compiled: Callable[[], bool] = lambda: False
        self._parts: OutermostCalls | None = None
        self.idle = IdleSteps(step.hook, self._catch_up, accumulate)
        self._updated = UpdateHook(self._optimizer_ends, self.idle)

    def add_checks(self, checks: Iterable[Check]) -> None:
        """Run the checks of a user, too."""
        self._checks.add(CustomChecks(self.step, checks, lambda: self._model()))

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
        watched = ModelHooks(model, owner, self.forward_begins, self.forward_ends, self.idle)
        self._find_compiled = watched.find_compiled
        updating = UpdateHook(self._optimizer_begins, self.idle)
        before = register_optimizer_step_pre_hook(updating)
        after = register_optimizer_step_post_hook(self._updated)
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
            self._intervals.close,
            self._guard.close,
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
        self.idle.forget()
        self._close_windows()
        self._inside, self._paused = None, True

    def resume(self) -> None:
        """An evaluation has ended: what comes now are steps again."""
        self.idle.forget()
        self.step.end()
        self._paused = False

    def begin_evaluation(self) -> None:
        """Begin a step of mode EVAL that has no forward pass."""
        self.idle.forget()
        self._close_windows()
        self._boundaries.begin_evaluation()

    def capture_parameters(self) -> None:
        """Capture the weights of the step in hand now, in which nothing updates the model."""
        root = self._model()
        if root is not None and self.step.saving:
            self._parameters.capture_initial(root)

    def save_next(self) -> None:
        """Save the next step of training, whatever the interval."""
        self._boundaries.owe()

    def abandon(self) -> None:
        """Save nothing of the step in hand, and judge the training no more: another model is
        trained."""
        self._model = lambda: None
        self.step.leave_out()

    # What PyTorch calls.

    @called
    def forward_begins(self, module: Any, args: Any, kwargs: Any) -> None:
        root = self._model()
        within = self._inside is not None and self._inside() not in (None, module)
        if root is None or self._paused or within or is_elsewhere(module):
            return
        training = root.training if self.idle.was_training is None else self.idle.was_training
        call = self._boundaries.classify(root, args, kwargs, training=training)
        self.idle.given(call.samples)
        if not call.in_step:
            if self._checks.look:
                self._checks.events.tell(ModelCalled, root, alone=call.samples == 1)
            return
        self._inside = ref(module)
        if self._looks:
            self._checks.pause()
            self._close_capture()
        self._boundaries.forward_begins(call, root, args, kwargs)
        if call.trains:
            self._timing.forward_begins(root)
        if not self._looks_now():
            return
        self._forward.begin_pass()
        self._checks.forward_begins(root, args, kwargs, compiled=is_compiled(module))
        if self.step.saving:
            self._forward.begins(root, args, kwargs, compiled=is_compiled(module))
            if self.step.passes == 1 and root.training and self._boundaries.is_updated_by_the_loop:
                self._backward = self._parameters.capture_at_backward(root)

    @called
    def forward_ends(self, module: Any, args: Any, kwargs: Any, output: Any) -> None:
        root = self._model()
        if root is None or self._inside is None or self._inside() is not module:
            return
        self._inside = None
        self._timing.forward_ends()
        if not self._looks:
            return
        self._forward.close()
        self._checks.forward_ends(root, output, compiled=is_compiled(module))
        if self.step.saving and output is not None:
            self._forward.ends(root, output, compiled=is_compiled(module))
            if self._boundaries.is_first_pass:
                self._parameters.capture_initial(root)

    def model_called(self, call: Call) -> None:
        """A forward pass goes on after a call in it of the model, or of a part: its loss is next.

        Captures what goes into the first one, and what comes out of the whole model.
        """
        if self.idle.follows or not self._looks:
            return
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
        if held and (self._guards or self.step.hook.guards_updates):
            self._guard.watch(root, optimizer)
        if closure is not None:
            self.idle.never()
        elif held:
            self._intervals.update_begins(root, optimizer)
        if self._looks or self._checks.look:
            self._checks.update_begins(root, optimizer, held=held, closure=closure is not None)
        if held and closure is None:
            self._before_update(root, optimizer)
        elif held:
            self._boundaries.updating()

    @called
    def _optimizer_ends(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        root = self._model()
        if root is None:
            return
        if not self._parameters.hold(optimizer, root):
            self._boundaries.updated_elsewhere(root, optimizer)
            return
        if closure_of(args, kwargs) is not None:  # it computed the gradients in between
            self._before_update(root, optimizer)
        if self._looks or self._checks.look:
            self._checks.update_ends(root, optimizer)
        else:
            self._checks.events.tell(UpdatesSkipped, {optimizer: 1})
        self._timing.update_ends()
        if self._boundaries.updated(optimizer) and not self._find_compiled():
            self._begin_ahead()

    def _update_skipped(self, is_news: bool) -> None:
        """Save the next step in place of this one, and at once how many updates are skipped."""
        self.idle.forget()
        step = self.step
        if step.saving:
            step.leave_out()
            self._boundaries.owe()
        for name, number in self._guard.counts() if is_news else ():
            step.hook.keep(
                name.name,
                number,
                name.collections,
                role=name.role,
                kind=name.kind,
                between=False,
                urgent=True,
            )

    def _before_update(self, root: Any, optimizer: Any) -> None:
        if self._boundaries.is_unseen(optimizer) and not self._boundaries.is_ahead:
            self._begin_ahead()
        if self.step.saving:
            self._close_windows()
            self._parameters.capture(root, optimizer)

    # Steps.

    def _looks_now(self) -> bool:
        """Return whether anything looks at the pass that begins, and until the next one."""
        trains = self.step.trains or torch.is_grad_enabled()  # perhaps in eval mode by mistake
        self._looks = self.step.saving or (trains and self._checks.look)
        return self._looks

    def _begin(self, mode: Mode) -> None:
        self.step.end()
        if mode is Mode.TRAIN:
            self.idle.begins()
        else:
            self.idle.differs()
        if self._raise_on_stop and self.step.hook.should_stop and not self.idle.repeats:
            raise TrainingStopped("a stop was requested")
        self._parameters.begin()
        self.loss.begin()
        if self.step.loss_kind != COMPETING:
            acts = self.evaluations.acts or self._checks.values_actions
            self.step.loss_kind = ACTING if acts else None
        self.step.begin(mode, self._boundaries.turn(mode))
        if mode is Mode.TRAIN and not self.step.saving and self._is_idle:
            self.idle.follow(self._boundaries.turns, acts=self._boundaries.acts)

    @property
    def _is_idle(self) -> bool:
        """Return whether nothing looks at the step of training in hand."""
        return not (self._paused or self._boundaries.is_updated_by_the_loop or self._checks.look)

    def _catch_up(self, skipped: Skipped) -> None:
        """Steps have gone by."""
        updates = {of: n for (source, of), n in skipped.events.items() if source is self._updated}
        latest = [
            [move.subject() for move in step if move.key.source is self._updated]
            for step in skipped.latest
        ]
        self.step.hook.skipped(Mode.TRAIN, skipped.steps)
        self._boundaries.skipped(skipped.steps, updates, latest)
        self._checks.events.tell(UpdatesSkipped, updates)

    def _end(self) -> None:
        """No step comes after the one in hand."""
        self.idle.forget()
        with Guard(self.step.hook.trouble, "schedules are not checked"):
            self._checks.training_ends(self._model())
        self.step.end()
        if self._checks.has_more:  # which is known at the end only
            self.step.begin(Mode.TRAIN, turn=0)
            self.step.end()

    def _begin_ahead(self) -> None:
        """Begin the next training step, whose forward passes are not seen."""
        self._boundaries.begin_ahead()
        root = self._model()
        if not self._looks_now():
            if root is not None:
                self._watch_parts(root)
            self.step.passes = 1
            return
        self._forward.begin_pass()
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
            aside = weakly(self._called_aside)
            begins = weakly(self._part_begins)
            self._parts = OutermostCalls(root, weakly(self._part_called), aside, begins, self.idle)
        if self._parts is not None:
            self._parts.begin()

    def _called_aside(self) -> None:
        """A part is called, and trains nothing."""
        self.evaluations.called_aside()
        if self._looks:
            self._checks.called_aside()

    @called
    def _part_begins(self, name: str, args: Any, kwargs: Any) -> None:
        """A part of the model is called, and not the model."""
        root = self._model()
        if root is None or self._paused:
            return
        if torch.is_grad_enabled():
            if self._boundaries.is_trained_again(name):
                self._begin_ahead()
            elif self._looks and self._boundaries.is_ahead:
                self._checks.part_begins()
        elif self._boundaries.is_evaluated(root, name, args, kwargs):
            self._checks.pause()
            self._close_capture()
            self._forward.begin_pass()
            self._boundaries.evaluate_parts(args, kwargs)
            self._looks = True
            self._checks.forward_begins(root, (), {}, compiled=False)
            self._checks.forward_ends(root, (), compiled=False)
            if self.step.saving:
                self._forward.ends(root, (), compiled=False)
            if self._parts is not None:
                self._parts.begin_pass()

    @called
    def _part_called(self, call: Call) -> None:
        trains = self._boundaries.is_ahead and torch.is_grad_enabled()
        if trains and not call.whole and not self._paused:
            self._boundaries.part_begins(call)
        if (trains or self._boundaries.evaluates_parts) and not call.whole and not self._paused:
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


def _call_all(report: Report, functions: Iterable[Callable[[], object]]) -> None:
    for function in functions:
        with Guard(report, "a part of the hook is still attached"):
            function()

"""A training as PyTorch calls back about it: forward passes, updates, and the steps they make."""

from __future__ import annotations

import atexit
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any
from weakref import finalize, ref

import torch
from tocsin.model import Mode
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from tocsin_hooks.guard import Guard, Report
from tocsin_hooks.torch.activations import Activations
from tocsin_hooks.torch.callbacks import (
    TrainingStopped,
    called,
    closure_of,
    compilations,
    is_elsewhere,
    weakly,
)
from tocsin_hooks.torch.captured import StepInHand
from tocsin_hooks.torch.checks import Checks
from tocsin_hooks.torch.losses import Losses
from tocsin_hooks.torch.names import (
    input_name,
    is_compiled,
    kind_of,
    output_name,
    submodules,
    unwrapped,
)
from tocsin_hooks.torch.parameters import Parameters, without_gradients
from tocsin_hooks.torch.root import ModelHooks, owners
from tocsin_hooks.torch.step_loss import StepLoss
from tocsin_hooks.torch.steps import StepDetector, Turns
from tocsin_hooks.torch.timing import TrainingTiming
from tocsin_hooks.torch.values import tensors_in

_log = logging.getLogger("tocsin")
_MOST_INPUTS = 8
_MOST_OUTPUTS = 4
_WITHOUT_LOSS = 2
"""After so many saved passes without gradients in training mode, and without any loss, such passes
are taken to be no evaluations. That may be how a policy acts, or how samples are generated."""
_STEPS_WITHOUT_OPTIMIZER = 8
"""After so many steps a loop is taken to update the model by itself. Before that an optimizer may
just have been skipped: with loss scaling the first gradients often overflow."""


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
        self.whole_evaluations = False
        """Whether all that is evaluated until ``resume`` is one step: else each pass is one."""
        self._steps = StepDetector(accumulate)
        self._turns = Turns()
        self._timing = TrainingTiming(step.hook)
        self._raise_on_stop = raise_on_stop
        self._activations = Activations(step)
        self._losses = Losses(step, losses)
        self.loss = StepLoss(step)
        self._parameters = Parameters(step)
        self._checks = Checks(step)
        self._model: Callable[[], Any] = lambda: None
        self._inside: Any = None  # the module whose forward pass we are in
        self._paused = False
        self._updated_since_forward: set[int] = set()  # identities of optimizers
        self._seen_forward = False
        self._ahead = False  # the step in hand was begun without a forward pass
        self._said_of_compiled = False
        self._compilations_before = compilations()
        self._backward: Any = None
        self._find_compiled: Callable[[], bool] = lambda: False

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
        atexit.register(self.step.end)  # before the hook's own, which writes what is waiting
        report = self.step.hook.trouble
        undo = (
            self._activations.close,
            self._losses.close,
            self.loss.close,
            self._checks.close,
            watched.remove,
            before.remove,
            after.remove,
            partial(atexit.unregister, self.step.end),
            self.step.end,
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
        # So a policy acts, and evaluations go that forget to call ``eval``.
        acts = root.training and not torch.is_grad_enabled() and not self.whole_evaluations
        if acts and self.step.without_meaning >= _WITHOUT_LOSS:
            self._checks.acts(root, args, kwargs)
            return
        self._inside = ref(module)
        self._close_windows()
        self._losses.begin_pass()
        self._seen_forward, self._ahead = True, False
        self._updated_since_forward.clear()
        if root.training and torch.is_grad_enabled():
            if self._steps.begins(partial(without_gradients, root)):
                self._begin(Mode.TRAIN)
            self._timing.forward_begins(root)
        else:
            self._steps.left()
            if not (self.whole_evaluations and self.step.evaluates):
                self._begin(Mode.EVAL)
                self.step.is_meant = not acts
        self.step.passes += 1
        self.step.again = self._steps.again
        self._checks.forward_begins(root, args, kwargs, compiled=is_compiled(module))
        if self.step.saving:
            self._open_forward(root, is_compiled(module), args, kwargs)

    def _open_forward(self, root: Any, compiled: bool, args: Any, kwargs: Any) -> None:
        if self.step.passes == 1:
            own = type(root).__name__
            inputs = tensors_in((args, kwargs), _MOST_INPUTS)
            self.step.add_named([(input_name(own, label), each) for label, each in inputs])
            if not compiled:
                self._activations.open(root)
            self._say_of_compiled(root, compiled)
            if root.training and self._updates_itself:
                self._backward = self._parameters.capture_at_backward(root)
        if not compiled:
            self._losses.open_inside(root)

    @called
    def forward_ends(self, module: Any, args: Any, kwargs: Any, output: Any) -> None:
        root = self._model()
        if root is None or self._inside is None or self._inside() is not module:
            return
        self._inside = None
        self._timing.forward_ends()
        self._activations.close()
        self._losses.close()
        self._checks.forward_ends(compiled=is_compiled(module))
        if not self.step.saving or output is None:
            return
        losses = self.loss.forward_ended(root, output)
        if self.step.passes == 1:
            own = type(root).__name__
            for label, each in tensors_in(output, _MOST_OUTPUTS):
                if not any(each is loss for loss in losses):
                    self.step.add_output(output_name(own, label), each)
        compiled = is_compiled(module)
        self._losses.open_outside(globally=not compiled or root.training)
        if compiled:
            self._close_at_backward(output)

    def _close_at_backward(self, output: Any) -> None:
        """Look for losses no longer: a compiled model warns of global hooks when it is called."""

        def close(_: Any) -> None:
            self._losses.close()

        for _, each in tensors_in(output, _MOST_OUTPUTS):
            if each.requires_grad:
                each.register_hook(close)

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
        if root is None or not self._parameters.hold(optimizer, root):
            return
        if closure_of(args, kwargs) is not None:  # it computed the gradients in between
            self._before_update(root, optimizer)
        self._checks.update_ends(root, optimizer)
        self._timing.update_ends()
        self._steps.updated()
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

    @property
    def _updates_itself(self) -> bool:
        none = self._parameters.updated_by_nobody
        return none and self._steps.begun > _STEPS_WITHOUT_OPTIMIZER

    def _begin(self, mode: Mode) -> None:
        self.step.end()
        if self._raise_on_stop and self.step.hook.should_stop:
            raise TrainingStopped("a stop was requested")
        self._parameters.begin()
        self.loss.begin()
        self.step.begin(mode, self._turns.next() if mode is Mode.TRAIN else None)

    def _begin_ahead(self) -> None:
        """Begin the next training step where forward passes are not seen, at an optimizer's step:
        they are compiled with the hooks in them, or ``model.forward`` is called by itself.
        """
        self._ahead = True
        self._losses.begin_pass()
        self._begin(Mode.TRAIN)
        root = self._model()
        if root is not None:
            self._checks.step_begins(compiled=is_compiled(root))
        if self.step.saving:
            self.step.passes = 1
            # A function that is compiled with the model in it would be compiled again each time
            # that there is another global hook, until PyTorch gives it up. What was compiled
            # before the model was watched may be something else, as in a notebook.
            compiled = compilations() != self._compilations_before
            self._losses.open_outside(globally=not compiled or is_compiled(root))
            if root is not None:
                self.loss.without_forward(root)

    def _close_windows(self) -> None:
        self._checks.close()
        self._activations.close()
        self._losses.close()
        if self._backward is not None:
            self._backward.remove()
            self._backward = None

    def _say_of_compiled(self, root: Any, compiled: bool) -> None:
        if not compiled or self._said_of_compiled:
            return
        self._said_of_compiled = True
        if any(
            kind and self._activations.wants(path, "output", kind)
            for path, module in submodules(root)
            for kind in [kind_of(module)]
        ):
            _log.warning("no activations are captured: they are not visible in a compiled model")


def _call_all(report: Report, functions: Iterable[Callable[[], object]]) -> None:
    for function in functions:
        with Guard(report, "a part of the hook is still attached"):
            function()

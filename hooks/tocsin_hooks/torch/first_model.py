"""The model that a script trains, found when the script calls it for the first time."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_pre_hook

from tocsin_hooks.guard import Guard, guarded, log_error
from tocsin_hooks.torch import TorchHook
from tocsin_hooks.torch.driver import Driver
from tocsin_hooks.torch.names import class_name, is_loss, unwrapped
from tocsin_hooks.torch.root import owners
from tocsin_hooks.torch.trained_model import trained_with, updated_by


class FirstModel:
    """Attaches a TorchHook to the first model that trains, in time for the step that shows it.

    That is the first module that is called while gradients are recorded, has parameters to learn
    and is not a loss; or the one that has it as a part, and all that its optimizer updates, such as
    an agent whose actor is called first. If no optimizer holds it yet, the first update shows what
    is trained, and the hook moves there. A model whose calls are compiled away is found by the
    first step of its optimizer. With ``wanted`` it is the first of a class of that name.
    ``options`` are of ``TorchHook.attach``.
    """

    def __init__(self, out: str | None, wanted: str | None, **options: Any) -> None:
        self._out = out
        self._wanted = wanted
        self._options = options
        self._pid = os.getpid()  # a forked child is not captured, as everywhere
        self._hook: TorchHook | None = None
        self._model: Any = None  # kept, for the run is to end with the script
        self._trained: Any = None  # what the first update shows: known before the next call
        self._driver: Driver | None = None
        self._calls: Any = register_module_forward_pre_hook(self._called)
        self._handles: list[Any] = [self._calls, register_optimizer_step_pre_hook(self._updates)]

    def close(self, *, finished: bool) -> None:
        """Handle the end of the script."""
        self._release()
        if self._hook is not None:
            self._hook.close(finished=None if finished else False)
        elif finished and self._model is None:
            what = f"class {self._wanted}" if self._wanted else "parameters to learn"
            say(f"nothing was captured: no model with {what} was trained")

    @guarded(attrgetter("_off"), "nothing is captured")
    def _called(self, module: Any, arguments: Any) -> None:
        if torch.compiler.is_compiling() or not self._attached(lambda: self._model_of(module)):
            return
        if self._driver is not None and self._model is module:
            self._driver.called(module, arguments)

    @guarded(attrgetter("_off"), "nothing is captured")
    def _updates(self, optimizer: Any, arguments: Any, keywords: Any) -> None:
        if torch.compiler.is_compiling():
            return
        if self._model is None:
            if self._attached(lambda: updated_by(optimizer)):
                self._release()
        elif self._trained is None and os.getpid() == self._pid:
            # PyTorch is going through the hooks of optimizers, so none is added or removed here.
            found = trained_with(self._model) or updated_by(optimizer)
            self._trained = found if found is not None and self._is_it(found) else self._model
            if self._moves and self._hook is not None and self._hook.training is not None:
                self._hook.training.abandon()
            self._handles.append(register_module_forward_pre_hook(self._called_again))

    @guarded(attrgetter("_off"), "nothing is captured")
    def _called_again(self, module: Any, arguments: Any) -> None:
        """The next call after the first update: move if that was of another model. Not while a
        watched module looks for its hooks, for it would call those that are taken away."""
        if torch.compiler.is_compiling() or os.getpid() != self._pid or owners(module):
            return
        self._release()
        if not self._moves:
            return
        self._move(self._trained)
        if self._driver is not None and self._model is module:
            self._driver.called(module, arguments)

    @property
    def _moves(self) -> bool:
        """Return whether another model is trained, which the script does not capture itself."""
        return self._trained is not self._model and not owners(unwrapped(self._trained))

    def _model_of(self, module: Any) -> Any:
        """The model that a module is, or is a part of; it is not sure before an update if no
        optimizer holds it."""
        if self._wanted is not None or not self._is_it(module):
            return module
        found = trained_with(module)
        if found is None:
            self._calls.remove()
            return module
        self._release()
        return found

    def _attached(self, candidate: Callable[[], Any]) -> bool:
        """Return whether it is the model, to which we are attached from now on."""
        if self._model is not None or os.getpid() != self._pid:
            return False
        with Guard(self._off, "nothing is captured"):
            model = candidate()
            if model is None or not self._is_it(model):
                return False
            self._model = model
            captures_itself = bool(owners(unwrapped(model)))
            if captures_itself or self._wanted is not None:
                self._release()  # no other is wanted
            if captures_itself:
                return False
            self._attach(model)
            return True
        return False

    def _off(self, what: str, error: Exception) -> None:
        self._release()
        log_error(what, error)

    def _is_it(self, module: Any) -> bool:
        if self._wanted is not None:
            return class_name(unwrapped(module)) == self._wanted
        learns = any(parameter.requires_grad for parameter in module.parameters())
        return torch.is_grad_enabled() and learns and not is_loss(module)

    def _attach(self, model: Any) -> None:
        hook = self._hook = TorchHook.attach(model, self._out, **self._options)
        self._driver = Driver(hook)
        run = f" to {self._out}" if self._out else ""
        say(f"{class_name(unwrapped(model))} is captured{run}")

    def _move(self, model: Any) -> None:
        """Continue with another model in the same run."""
        before, hook = self._model, self._hook
        if hook is None:
            return
        hook.detach()
        stops = bool(self._options.get("raise_on_stop"))
        self._model, self._hook = model, TorchHook(model, hook.hook, raise_on_stop=stops)
        if self._hook.training is not None:
            self._hook.training.save_next()
        self._driver = Driver(self._hook)
        names = [class_name(unwrapped(each)) for each in (model, before)]
        say("{} is captured instead of {}: the optimizer updates it".format(*names))

    def _release(self) -> None:
        while self._handles:
            self._handles.pop().remove()


def say(message: str) -> None:
    """Print a line for the user; with several processes, only the first one prints."""
    if os.environ.get("RANK", "0") == "0":
        print(f"tocsin: {message}", file=sys.stderr)  # noqa: T201 - a command

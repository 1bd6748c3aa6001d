"""The model that a script trains, found when the script calls it for the first time."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import torch
from torch.nn import Module
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_pre_hook

from tocsin_hooks.guard import Guard, guarded, log_error
from tocsin_hooks.torch import TorchHook
from tocsin_hooks.torch.driver import Driver
from tocsin_hooks.torch.gradients import parameters_of
from tocsin_hooks.torch.names import class_name, is_loss, unwrapped
from tocsin_hooks.torch.root import owners


class FirstModel:
    """Attaches a TorchHook to the first model that trains, in time for the step that shows it.

    That is the first module that is called while gradients are recorded, has parameters to learn
    and is not a loss; with ``wanted`` the first of a class of that name. A model whose calls are
    compiled away is found by the first step of its optimizer. ``options`` are of
    ``TorchHook.attach``.
    """

    def __init__(self, out: str | None, wanted: str | None, **options: Any) -> None:
        self._out = out
        self._wanted = wanted
        self._options = options
        self._pid = os.getpid()  # a forked child is not captured, as everywhere
        self._hook: TorchHook | None = None
        self._model: Any = None  # kept, for the run is to end with the script
        self._driver: Driver | None = None
        self._handles: list[Any] = [
            register_module_forward_pre_hook(self._called),
            register_optimizer_step_pre_hook(self._updates),
        ]

    def close(self, *, finished: bool) -> None:
        """The script has ended."""
        self._release()
        if self._hook is not None:
            self._hook.close(finished=None if finished else False)
        elif finished and self._model is None:
            what = f"class {self._wanted}" if self._wanted else "parameters to learn"
            say(f"nothing was captured: no model with {what} was trained")

    @guarded(attrgetter("_off"), "nothing is captured")
    def _called(self, module: Any, arguments: Any) -> None:
        if torch.compiler.is_compiling() or not self._attached(lambda: module):
            return
        if self._driver is not None:
            self._driver.called(module, arguments)

    @guarded(attrgetter("_off"), "nothing is captured")
    def _updates(self, optimizer: Any, arguments: Any, keywords: Any) -> None:
        if not torch.compiler.is_compiling():
            self._attached(lambda: _updated_by(optimizer))

    def _attached(self, candidate: Callable[[], Any]) -> bool:
        """Whether it is the model, to which we are attached from now on."""
        if self._model is not None or os.getpid() != self._pid:
            return False
        with Guard(self._off, "nothing is captured"):
            model = candidate()
            if model is None or not self._is_it(model):
                return False
            self._release()
            self._model = model
            if owners(unwrapped(model)):  # the script captures it by itself
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

    def _release(self) -> None:
        while self._handles:
            self._handles.pop().remove()


def say(message: str) -> None:
    """One line for whoever has started us; of several processes the first one speaks."""
    if os.environ.get("RANK", "0") == "0":
        print(f"tocsin: {message}", file=sys.stderr)  # noqa: T201 - a command


def _updated_by(optimizer: Any) -> Any:
    """The outermost model that has parameters of an optimizer."""
    held = {*map(id, parameters_of(optimizer))}
    models = (each for each in gc.get_objects() if issubclass(type(each), Module))
    owners = [each for each in models if not held.isdisjoint(map(id, each.parameters()))]
    return max(owners, key=lambda each: len([*each.modules()]), default=None)

"""Helpers for callbacks of PyTorch that neither disturb a training nor keep objects alive."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from operator import attrgetter
from typing import Any, cast
from weakref import WeakMethod, ref

import torch

from tocsin_hooks.guard import Guard, Method, guarded
from tocsin_hooks.torch.autograd import is_replica, is_transforming
from tocsin_hooks.torch.idle import IdleSteps

_guarded = guarded(attrgetter("step.hook.trouble"), "part of a step is not captured")


def called(method: Method) -> Method:
    """Return a method of ModelTraining that PyTorch calls: its time counts as the hook's."""

    @wraps(method)
    def call(self: Any, *arguments: Any) -> None:
        with self.step.hook.measured():
            method(self, *arguments)

    return _guarded(cast("Method", call))


def safely(hook: Any, seen: Callable[..., None]) -> Callable[..., None]:
    """Return what a module calls: no error of it reaches the training, and its time counts as the
    ``hook``'s."""

    def call(*arguments: Any) -> None:
        with Guard(hook.trouble, "part of a step is not captured"), hook.measured():
            seen(*arguments)

    return call


def is_elsewhere(module: Any) -> bool:
    """Return whether a forward pass is not part of the training: it is a replica's, traced, or
    transformed.
    """
    return is_replica(module) or torch.jit.is_tracing() or is_transforming()


def closure_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the closure that ``optimizer.step`` was given to compute the loss again, if any."""
    return kwargs.get("closure") or next(filter(callable, args[1:]), None)


class UpdateHook:
    """A global hook of all optimizers that keeps neither the TorchHook nor a model alive."""

    def __init__(self, method: Callable[..., None], idle: IdleSteps) -> None:
        self._method = WeakMethod(method)
        self._idle = ref(idle)

    def __call__(self, optimizer: Any, *arguments: Any) -> None:
        idle = self._idle()
        if idle is None or torch.compiler.is_compiling():
            return
        try:
            if idle.skips(self, optimizer):
                return
        except Exception as error:  # noqa: BLE001 - a training must not end by this
            idle.failed(error)
        if (method := self._method()) is not None:
            method(optimizer, *arguments)

    def repeat(self, optimizer: Any, samples: int) -> None:
        """Handle an update that was skipped."""
        if (method := self._method()) is not None:
            method(optimizer, (), {})


def weakly(method: Callable[..., None]) -> Callable[..., None]:
    """Wrap a callback of a global hook, which must not keep its owner alive."""
    weak = WeakMethod(method)

    def call(*arguments: Any) -> None:
        if not torch.compiler.is_compiling() and (alive := weak()) is not None:
            alive(*arguments)

    return call

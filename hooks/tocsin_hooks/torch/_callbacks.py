"""What PyTorch calls: never in the way of a training, never keeping it alive."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any
from weakref import WeakMethod

import torch

if TYPE_CHECKING:  # which imports this module
    from tocsin_hooks.torch._training import Training


class TrainingStopped(Exception):
    """Somebody asked for a stop: by ``STOP.json`` in the run, or by SIGTERM."""


def guarded(method: Callable[..., None]) -> Callable[..., None]:
    """A method that a framework calls: measured, and it never raises into the training."""

    @wraps(method)
    def call(self: Training, *arguments: Any) -> None:
        try:
            with self.step.hook.measured():
                method(self, *arguments)
        except TrainingStopped:
            raise
        except Exception as error:  # noqa: BLE001 - a training must not end by this
            self.step.hook.trouble("part of a step is not captured", error)

    return call


def is_elsewhere(module: Any) -> bool:
    """Whether a forward pass is none of the training's: a replica's, or one that is recorded."""
    return getattr(module, "_is_replica", False) or torch.jit.is_tracing()


def compilations() -> int:
    """How often ``torch.compile`` has compiled something in this process."""
    known = sys.modules.get("torch._dynamo.utils")
    return sum(known.counters.get("frames", {}).values()) if known else 0


def closure_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What ``optimizer.step`` was given to compute the loss anew, if anything."""
    return kwargs.get("closure") or next(filter(callable, args[1:]), None)


def weakly(method: Callable[..., None]) -> Callable[..., None]:
    """For a global hook, which must not keep us alive."""
    weak = WeakMethod(method)

    def call(*arguments: Any) -> None:
        if not torch.compiler.is_compiling() and (alive := weak()) is not None:
            alive(*arguments)

    return call

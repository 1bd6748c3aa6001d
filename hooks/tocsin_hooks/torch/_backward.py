"""The loss of a training loop, seen where the loop calls ``backward`` on it."""

from __future__ import annotations

import dataclasses
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from types import CodeType, FrameType
from typing import Any

import torch

from tocsin_hooks.torch._root import ModuleHook

_ENTRANCES: Mapping[CodeType, str] = {
    torch.autograd.backward.__code__: "tensors",
    torch.autograd.grad.__code__: "outputs",
}
"""The functions through which a backward pass begins, and their argument that is the loss."""

_MOST_OUTPUTS = 64
_MOST_FRAMES = 8  # from ``backward`` outwards, in which a GradScaler is looked for

Seen = Callable[[Any, Any], None]
Trouble = Callable[[str, Exception], None]


class LossWatcher:
    """Calls ``seen`` with the loss of each backward pass that goes through ``model``: the tensor,
    and its value as it was before any ``GradScaler``.

    A loss that functions compute is announced nowhere. But the gradient of the model's output is
    (``Tensor.register_hook``), and at that moment the thread that called the model is inside
    ``backward``, of which the loss is an argument. Steps that are not ``wanted`` cost nothing.
    """

    def __init__(
        self, model: Any, wanted: Callable[[], bool], seen: Seen, trouble: Trouble
    ) -> None:
        self._wanted = wanted
        self._seen = seen
        self._trouble = trouble
        watch = ModuleHook(self._forward, None, before=False)
        self._handle = model.register_forward_hook(watch, with_kwargs=True)

    def close(self) -> None:
        self._handle.remove()

    def _forward(self, module: Any, args: Any, kwargs: Any, output: Any) -> None:
        try:
            if torch.is_grad_enabled() and self._wanted():
                tell = _Once(self._seen, self._trouble)
                for tensor in _tensors(output):
                    if tensor.requires_grad:
                        tensor.register_hook(tell)
        except Exception as error:  # noqa: BLE001 - a training must not end by this
            self._trouble("the loss of a step is not seen", error)


class _Once:
    """Waits for the gradient of any output of a forward pass, in the thread that made it."""

    def __init__(self, seen: Seen, trouble: Trouble) -> None:
        self._thread = threading.get_ident()  # on a GPU, gradients come in another
        self._seen: Seen | None = seen
        self._trouble = trouble

    def __call__(self, gradient: Any) -> None:
        seen, self._seen = self._seen, None
        if seen is None:
            return
        try:
            loss, caller = _differentiated(sys._current_frames().get(self._thread))
            if loss is not None and loss.numel() == 1:
                seen(loss, _unscaled(loss, caller))
        except Exception as error:  # noqa: BLE001 - a training must not end by this
            self._trouble("the loss of a step is not seen", error)


def _differentiated(frame: FrameType | None) -> tuple[Any, FrameType | None]:
    """The first tensor whose gradients are being computed, and who asked for them."""
    while frame is not None:
        if argument := _ENTRANCES.get(frame.f_code):
            given = frame.f_locals[argument]
            loss = given if isinstance(given, torch.Tensor) else next(iter(given), None)
            return loss, frame.f_back
        frame = frame.f_back
    return None, None


def _unscaled(loss: Any, frame: FrameType | None) -> Any:
    """``GradScaler.scale`` multiplies; what called ``backward`` has the scaler at hand."""
    value = loss.detach()
    if loss.grad_fn is None or loss.grad_fn.name() != "MulBackward0":
        return value
    for _ in range(_MOST_FRAMES):
        if frame is None:
            break
        for scaler in _at_hand(frame):
            if isinstance(scaler, torch.amp.GradScaler) and scaler.is_enabled():
                return value / scaler.scale(torch.ones_like(value))
        frame = frame.f_back
    return value


def _at_hand(frame: FrameType) -> Iterable[Any]:
    """The variables that a function uses, and their attributes that it names."""
    names = frame.f_code.co_names
    variables = [*frame.f_locals.values()]
    variables += [frame.f_globals[name] for name in names if name in frame.f_globals]
    yield from variables
    for owner in variables:
        attributes = getattr(owner, "__dict__", {})
        yield from (attributes[name] for name in names if name in attributes)


def _tensors(output: Any) -> Iterable[Any]:
    """The tensors in what a model gives: alone, in sequences, in mappings, in dataclasses."""
    waiting = [output]
    for _ in range(_MOST_OUTPUTS):
        if not waiting:
            return
        found = waiting.pop()
        if isinstance(found, torch.Tensor):
            yield found
        elif isinstance(found, Mapping):
            waiting += found.values()
        elif isinstance(found, list | tuple):
            waiting += found
        elif dataclasses.is_dataclass(found):
            waiting += vars(found).values()

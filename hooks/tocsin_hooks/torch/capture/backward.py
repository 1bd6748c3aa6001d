"""Backward passes through a model: the loss they start from, and the caller."""

from __future__ import annotations

import dataclasses
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch
from torch.nn.parameter import is_lazy

from tocsin_hooks.guard import Report, guarded
from tocsin_hooks.torch.autograd import MUL, backward_pass, name_of

_BACKWARD: CodeType = torch.autograd.backward.__code__
_GRAD: CodeType = torch.autograd.grad.__code__
"""The two functions through which a backward pass begins."""

_TORCH = str(Path(torch.__file__).parent)
_MOST_OUTPUTS = 64
_MODE = "__torch_function__"
_MOST_FRAMES = 12  # from ``backward`` outwards, in which a GradScaler is looked for


class Site(NamedTuple):
    """The line of a script that calls ``backward``: the function's name, and the line in it.

    Not the file: each time that a notebook's cell is run, it is another one.
    """

    function: str
    line: int


@dataclass(frozen=True)
class Backward:
    """A backward pass that has begun: the ``loss`` it starts from, and the calling frame."""

    loss: Any
    caller: FrameType | None

    def value(self) -> Any:
        """Return the loss as it was before ``GradScaler.scale`` multiplied it."""
        value, scaler = self.loss.detach(), self.scaler()
        return value if scaler is None else value / scaler.scale(torch.ones_like(value))

    def scaler(self) -> Any:
        """Return the GradScaler that may have multiplied the loss: one that the callers use."""
        frame = self.caller if name_of(self.loss.grad_fn) == MUL else None
        for _ in range(_MOST_FRAMES):
            if frame is None:
                break
            for scaler in _at_hand(frame):
                if isinstance(scaler, torch.amp.GradScaler) and scaler.is_enabled():
                    return scaler
            frame = frame.f_back
        return None

    def site(self) -> Site:
        """Return the first function outwards that only passes on to no other ``backward``."""
        frame = self.caller
        while frame is not None and frame.f_back is not None and _passes_on(frame):
            frame = frame.f_back
        if frame is None:
            return Site("", 0)
        return Site(frame.f_code.co_name, frame.f_lineno - frame.f_code.co_firstlineno)


def innermost(frame: FrameType | None) -> Backward | None:
    """Return the innermost backward pass that a thread is in, if it computes gradients of a single
    number. A checkpoint, which recomputes part of a pass, usually has several.
    """
    while frame is not None:
        loss: Any = None
        if frame.f_code is _BACKWARD:
            found = frame.f_locals["tensors"]
            loss = found[0] if type(found) is tuple else _first(found)
        elif frame.f_code is _GRAD and _of_parameters(frame.f_locals["inputs"], []):
            loss = _first(frame.f_locals["outputs"])
        if loss is not None and loss.numel() == 1:
            return Backward(loss, frame.f_back)
        frame = frame.f_back
    return None


class BackwardWatcher:
    """Calls ``seen`` once for each backward pass that computes gradients of a model.

    A loss that a function computes is announced nowhere. But the gradients of the model's outputs
    and parameters are (``Tensor.register_hook``), and at that moment the thread that called the
    model is inside ``backward``, of which the loss is an argument. Nothing of PyTorch is patched.
    """

    def __init__(self, seen: Callable[[Backward], None], trouble: Report) -> None:
        self._seen = seen
        self._trouble = trouble
        self._handles: list[Any] = []
        self._last: object = None  # the backward pass that was seen last
        self._shapes: list[Any] = []  # of the model's parameters
        self._generation = 0

    def watch_output(self, model: Any, output: Any) -> bool:
        """Wait for a gradient of a pass's outputs. Return whether one can come."""
        callback = self._callback()
        self._shapes = _shapes(model.parameters())
        found = [each for each in _tensors(output) if each.requires_grad]
        self._handles += [each.register_hook(callback) for each in found]
        return bool(found)

    def watch_parameters(self, model: Any) -> None:
        """Wait for a gradient of any parameter: slower, but seen however the model is called."""
        callback = self._callback()
        found = [each for each in model.parameters() if each.requires_grad]
        self._handles += [each.register_hook(callback) for each in found]

    def close(self) -> None:
        """Stop waiting, also where the script still holds an output of the model."""
        self._generation += 1
        self._last = None
        while self._handles:
            self._handles.pop().remove()

    def _callback(self) -> Callable[[Any], None]:
        thread = threading.get_ident()  # on a GPU, gradients come in another
        generation = self._generation

        def arrived(_: Any) -> None:
            if generation == self._generation:
                self._arrived(thread)

        return arrived

    @guarded(attrgetter("_trouble"), "the loss of a step is not seen")
    def _arrived(self, thread: int) -> None:
        task = backward_pass()
        if task == self._last:
            return
        found = _begun(sys._current_frames().get(thread), self._shapes)
        if found is not None:
            self._last = task
            self._seen(found)


def _begun(frame: FrameType | None, shapes: list[Any]) -> Backward | None:
    """The outermost backward pass that a thread is in: others recompute a part of it.

    Gradients for their own sake, such as a gradient penalty's, are not those of a loss: they are
    asked of something else than parameters, or than what ``functional_call`` puts in the place of
    all of them, with their ``shapes``.
    """
    found = None
    while frame is not None:
        if frame.f_code is _BACKWARD:
            found = Backward(_first(frame.f_locals["tensors"]), frame.f_back)
        elif frame.f_code is _GRAD and _of_parameters(frame.f_locals["inputs"], shapes):
            found = Backward(_first(frame.f_locals["outputs"]), frame.f_back)
        frame = frame.f_back
    return found


def _first(given: Any) -> Any:
    return given if isinstance(given, torch.Tensor) else next(iter(given), None)


def _of_parameters(inputs: Any, shapes: list[Any]) -> bool:
    given = (inputs,) if isinstance(inputs, torch.Tensor) else inputs
    if any(isinstance(each, torch.nn.Parameter) for each in given):
        return True
    return len(given) > 1 and _shapes(given) == shapes


def _shapes(tensors: Iterable[Any]) -> list[Any]:
    known = (each for each in tensors if each.requires_grad and not is_lazy(each))
    return sorted(tuple(each.shape) for each in known)


def _passes_on(frame: FrameType) -> bool:
    """Return whether it is ``Tensor.backward``, a trainer's method of that name, or a mode's."""
    name = frame.f_code.co_name
    return name in ("backward", _MODE) or frame.f_code.co_filename.startswith(_TORCH)


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

"""Calls of loss functions and their arguments, wherever a script makes them."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import attrgetter
from types import FrameType
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - everybody calls it so
from torch.overrides import TorchFunctionMode, handle_torch_function

from tocsin_hooks.guard import Report, guarded
from tocsin_hooks.meter import Meter
from tocsin_hooks.script_line import caller_at
from tocsin_hooks.torch import events
from tocsin_hooks.torch.autograd import (
    SETS_GRADIENTS,
    compilations,
    is_transforming,
    newest_function_mode,
)
from tocsin_hooks.torch.calls.loss_call import PARAMETERS, LossCall, loss_call
from tocsin_hooks.torch.calls.recorded_call import RecordedCall
from tocsin_hooks.torch.calls.tape import Tape
from tocsin_hooks.torch.capture.given_inputs import GivenInputs
from tocsin_hooks.torch.dispatcher import Dispatcher

_LEAVES = frozenset({torch.Tensor.__array__, torch.Tensor.numpy, torch.Tensor.tolist})
_LEAVES |= {F.one_hot, torch.Tensor.unbind, torch.unbind}  # each sample by itself
_EQUALS = frozenset({torch.eq, torch.Tensor.eq, torch.Tensor.__eq__})
_DETACHES = frozenset(
    {torch.detach, torch.Tensor.detach, torch.Tensor.detach_, torch.Tensor.data.__get__}
)
_DROPOUTS = frozenset({F.dropout, F.dropout1d, F.dropout2d, F.dropout3d})
_BACKWARDS = frozenset({torch.Tensor.backward, torch.autograd.backward})
_ASKS = frozenset(
    getattr(torch.Tensor, name)
    for name in (
        *("dim", "element_size", "get_device", "is_complex", "is_contiguous", "is_floating_point"),
        *("ndimension", "nelement", "numel", "size", "storage_offset", "stride"),
        *("__hash__", "__len__"),
    )
) | frozenset(
    getattr(torch.Tensor, name).__get__
    for name in (
        *("device", "dtype", "grad", "grad_fn", "is_cpu", "is_cuda", "is_leaf", "is_meta"),
        *("is_quantized", "is_sparse", "layout", "ndim", "requires_grad", "shape"),
    )
)
_ASKS |= {torch.is_complex, torch.is_floating_point, torch.numel, torch.Tensor.grad.__set__}
_ASKS |= {SETS_GRADIENTS}
"""Functions that compute nothing: nobody needs to hear of them."""

_PASSES_ON = handle_torch_function.__code__
_AROUND = 4e-6  # seconds that PyTorch takes to call a mode


@dataclass
class Listener:
    """Sends ``events`` for the calls that checks need.

    Besides, ``loss`` gets each loss that is called, ``backward`` what gradients are going to be
    computed of, ``left`` each tensor that has become an array, a list or parts, or is asked where
    it is some class, with that class. While the ``tape`` records, it gets every call, and then
    ``recorded`` as well, with what it gave.

    The ``meter`` measures what that takes. What is called while it runs counts as nothing.
    ``inside``: of a forward pass; ``inputs``: what the model was given last; ``calls_left``: of so
    many calls it still hears.
    """

    events: Dispatcher
    loss: Callable[[LossCall], None]
    backward: Callable[[Any], None]
    recorded: Callable[[RecordedCall, Any], None]
    left: Callable[[Any, int | None], None]
    tape: Tape
    trouble: Report
    meter: Meter
    inside: bool = False
    inputs: GivenInputs = field(default_factory=GivenInputs)
    calls_left: float = math.inf


class LossWindow:
    """Sends calls between ``open`` and ``close`` to a listener, in the thread that opens it.

    For that a mode stands on PyTorch's stack of modes, one for all windows of a thread. It is put
    there only if the stack is empty, and taken away only from its top: modes of the script are
    entered and left as ever. Compiled code that runs while it is there is compiled again because of
    it: that happens once, and then the window stays closed.
    """

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._mode: _Mode | None = None
        self._compilations = 0
        self._stays_closed = False

    @property
    def is_open(self) -> bool:
        return self._mode is not None

    def open(self) -> None:
        if self._stays_closed or self._mode is not None:
            return
        mode = newest_function_mode()
        if mode is None:
            mode = _Mode()
            mode.__enter__()
        if isinstance(mode, _Mode):
            self._compilations = compilations()
            mode.listeners.append(self._listener)
            self._mode = mode

    def close(self) -> None:
        mode, self._mode = self._mode, None
        if mode is None:
            return
        mode.listeners.remove(self._listener)
        self._stays_closed = compilations() != self._compilations
        if not mode.listeners and newest_function_mode() is mode:
            mode.__exit__(None, None, None)


class _Mode(TorchFunctionMode):
    """Passes every call on unchanged, and to the listeners if there are any."""

    def __init__(self) -> None:
        super().__init__()
        self.listeners: list[Listener] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, listeners = kwargs or {}, [each for each in self.listeners if each.calls_left > 0]
        for each in listeners:
            if each.meter.runs:
                return func(*args, **kwargs)
            each.meter.add(_AROUND)
            each.calls_left -= 1
        if func in _ASKS or not listeners or is_transforming():
            return func(*args, **kwargs)
        caller: Callable[[Any, Any, Any], Any] = _call_here
        calls = []
        for each in listeners:
            with each.meter:
                caller = _caller(each, sys._getframe(1), func) or _call_here
                calls.append(_before(each, caller, func, args, kwargs))
        found = caller(func, args, kwargs)
        for each, call in zip(listeners, calls, strict=True):
            with each.meter:
                _after(each, call, func, args, kwargs, found)
        return found


@guarded(attrgetter("trouble"), "a warning names no line")
def _caller(
    listener: Listener, frame: FrameType, function: Any
) -> Callable[[Any, Any, Any], Any] | None:
    return caller_at(_calling_frame(frame, function))


def _call_here(function: Any, args: Any, kwargs: Any) -> Any:
    return function(*args, **kwargs)


def _calling_frame(frame: FrameType, function: Any) -> FrameType:
    """The frame that called ``function``, given the one that calls the mode."""
    if frame.f_code is _PASSES_ON and frame.f_back is not None:
        frame = frame.f_back
        if frame.f_code is getattr(function, "__code__", None) and frame.f_back is not None:
            frame = frame.f_back
    return frame


@guarded(attrgetter("trouble"), "a loss is not compared")
def _before(
    listener: Listener, caller: Callable[..., Any], func: Any, args: Any, kwargs: Any
) -> RecordedCall | None:
    """Return the record of the call on the tape."""
    if func in _BACKWARDS:
        listener.backward(args[0] if args else None)
    elif func in _DETACHES and args:
        listener.events.tell(events.Detached, args[0])
    if not listener.tape.is_recording:
        return None
    return listener.tape.before(func, args, kwargs, caller)


def _dropped(func: Any, args: Any, kwargs: Any) -> float:
    """The share that a dropout drops; 0 of other functions, and where it drops nothing."""
    if func is F.scaled_dot_product_attention:
        return float(args[4] if len(args) > 4 else kwargs.get("dropout_p", 0.0))
    if func not in _DROPOUTS or not (args[2] if len(args) > 2 else kwargs.get("training", True)):
        return 0.0
    return float(args[1] if len(args) > 1 else kwargs.get("p", 0.5))


@guarded(attrgetter("trouble"), "a loss is not compared")
def _after(
    listener: Listener, call: RecordedCall | None, func: Any, args: Any, kwargs: Any, found: Any
) -> None:
    if call is not None:
        listener.tape.after(call, args[0] if args else None, found)
        listener.recorded(call, found)
    inside, to = listener.inside, listener.events
    to.tell(events.Called, func, args, kwargs, found, inside, listener.inputs)
    if func in _BACKWARDS:
        to.tell(events.BackwardEnds)
    elif func in PARAMETERS:
        listener.loss(loss_call(func, args, kwargs, found))
    elif inside and (share := _dropped(func, args, kwargs)):
        to.tell(events.Dropped, share, found)
    elif not inside and func in _LEAVES and args:
        listener.left(args[0], None)
    elif not inside and func in _EQUALS and len(args) == 2 and type(args[1]) is int:
        listener.left(*args)

"""The loss and a gradient norm of steps between saves, for the summary of a save interval."""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from math import ceil
from time import perf_counter
from typing import Any
from weakref import ref

import torch
from tocsin.model import Mode, TensorSummary
from tocsin.tensors import Captured
from torch.linalg import vector_norm

from tocsin_hooks.interval import GRADIENT, LOSS, IntervalSummary, interval_name
from tocsin_hooks.plan import CapturePlan
from tocsin_hooks.torch.capture.backward import Backward, innermost
from tocsin_hooks.torch.capture.captured import CurrentStep
from tocsin_hooks.torch.gradients import parameters_of
from tocsin_hooks.torch.reductions.transfer import Box, Parcel, Reduced

_MOST_STEPS = 10_000  # of an interval; the latest ones count
_LARGEST = 1 << 14  # elements of a gradient whose norm is computed in every step
_VALUE = 2e-5  # seconds of CPU time that a value takes
_PART = 0.25  # of the limit on overhead that values may take
_HALF = frozenset({torch.float16, torch.bfloat16})

Value = tuple[int, Any, Any]
"""The step of a backward pass, its loss, and the norm of a gradient, if it is read: numbers of the
host, or tensors without axes on another device."""

_LOST = "steps between saves are not summarised"


class Intervals:
    """Keeps the loss and a gradient norm of backward passes, by optimizer: of all passes, or if
    steps are short, of every third, fifth … one.

    Each stays on its device until a step of training is saved; nothing waits. Of the gradients of
    an optimizer one stands for all, the largest that is small enough to be read in every step: that
    of a recurrent layer explodes with the others. Not kept: what a closure computes, which may be a
    try of a line search; and what a model that acts or competes computes, where levels say nothing.
    Where no rule reads these numbers, nothing is watched.
    """

    def __init__(self, step: CurrentStep) -> None:
        self._step = step
        self._series: dict[int, _Series] = {}  # by the identity of an optimizer
        self._generation = -1
        self._is_wanted = False
        self._scaler: Callable[[], Any] | None = None  # None: not looked for in this interval
        self._is_scaled = True  # as long as it is not known
        self._counters = step.hook.counters
        self._begun: tuple[int, float] | None = None  # the interval: its first step, and when
        step.before_end.append(self._capture)

    def close(self) -> None:
        """Stop watching."""
        for series in self._series.values():
            series.close()
        self._series.clear()

    def update_begins(self, root: Any, optimizer: Any) -> None:
        """An optimizer is about to update the model, in a step that is looked at. Watch it from now
        on, if a rule reads what this finds."""
        self._follow_rules()
        known = self._series.get(id(optimizer))
        if not self._is_wanted or self._step.loss_kind is not None:
            return
        if known is not None and known.optimizer() is optimizer:
            return
        if known is not None:
            known.close()
        ours = {id(each) for each in root.parameters()}
        held = [each for each in parameters_of(optimizer) if id(each) in ours]
        series = self._series[id(optimizer)] = _Series(ref(optimizer), len(self._series))
        series.watch(held, partial(self._differentiated, series, threading.get_ident()))

    def _follow_rules(self) -> None:
        hook = self._step.hook
        if self._generation == hook.generation:
            return
        self._generation = hook.generation
        self.close()
        names = [interval_name(kind) for kind in (LOSS, GRADIENT)]
        self._is_wanted = any(
            hook.wants(name, collections, role=role, kind=kind)
            for name, collections, role, kind in names
        )

    def _differentiated(self, series: _Series, thread: int, gradient: Any) -> None:
        """Handle the gradient of a parameter, while its backward pass continues."""
        series.passes += 1
        if series.passes % series.every:
            return
        try:
            found = innermost(sys._getframe())
            if found is None:  # on a GPU, gradients come in another thread
                found = innermost(sys._current_frames().get(thread))
            if found is None:
                return
            loss, norm = found.loss, None
            if series.reads_norm:
                here = gradient.detach() if gradient.requires_grad else gradient
                norm = vector_norm(here, dtype=series.dtype)
            if self._is_scaled and (scaler := self._scaler_of(found)) is not None:
                scale = scaler.scale(torch.ones_like(loss.detach()))
                loss, norm = loss.detach() / scale, None if norm is None else norm / scale
            # On another device they stay there, and nobody waits for them.
            loss = loss.item() if loss.is_cpu else loss.detach().clone()
            norm = norm.item() if norm is not None and norm.is_cpu else norm
            series.values.append((self._counters[Mode.GLOBAL] - 1, loss, norm))
        except Exception as error:  # noqa: BLE001 - a training must not end by this
            with suppress(Exception):  # a handler of the script's log may raise
                self._step.hook.trouble(_LOST, error)

    def _scaler_of(self, found: Backward) -> Any:
        """Return the GradScaler that multiplies the losses of this interval."""
        if self._scaler is None:
            scaler = found.scaler()
            self._is_scaled = scaler is not None
            self._scaler = None if scaler is None else ref(scaler)
            return scaler
        return self._scaler()

    def _capture(self) -> None:
        """Add the summaries since the last save to a saved step, which ends."""
        if self._step.mode is not Mode.TRAIN:
            return
        self._scaler, self._is_scaled = None, True
        self._counters = self._step.hook.counters
        if self._step.loss_kind is not None:  # levels say nothing, so idle steps are not watched
            self.close()
        every = self._every()
        for series in self._series.values():
            series.every = every
            values = series.taken()
            if not values:
                continue
            kinds = (LOSS, GRADIENT) if series.reads_norm else (LOSS,)
            plans = {kind: self._step.plan(interval_name(kind, series.number)) for kind in kinds}
            if any(plans.values()):
                self._step.hook.spent(_VALUE * len(values))
                self._step.add_reduced(_reduced(plans, values, series.summary))

    def _every(self) -> int:
        """Return of how many passes one is kept, by the time of the steps since the last save. Odd,
        since steps often alternate between two kinds."""
        begun, limit = self._begun, self._step.hook.overhead
        step, now = self._begun = self._counters[Mode.GLOBAL], perf_counter()
        if begun is None or step <= begun[0] or not limit:
            return 1
        seconds = max(now - begun[1], 1e-9) / (step - begun[0])
        return ceil(_VALUE / (_PART * limit * seconds)) | 1


class _Series:
    """The numbers of one optimizer since the last save."""

    def __init__(self, optimizer: Callable[[], Any], number: int) -> None:
        self.optimizer = optimizer
        self.number = number
        self.values = deque[Value](maxlen=_MOST_STEPS)
        self.passes = 0
        self.every = 1  # of so many passes one is kept
        self.reads_norm = False
        self.dtype: Any = None  # of the norm
        self.summary = IntervalSummary()
        self._handle: Any = None

    def watch(self, held: Iterable[Any], differentiated: Callable[[Any], None]) -> None:
        """Be called when the gradient is there of the parameter that stands for all."""
        given = [each for each in held if each.grad is not None and each.requires_grad]
        small = [each for each in given if _is_small(each.grad)]
        watched = max(small, key=lambda each: each.numel(), default=None)
        self.reads_norm = watched is not None
        if watched is not None:
            self.dtype = torch.float32 if watched.grad.dtype in _HALF else None
        elif given:
            watched = given[-1]
        if watched is not None:
            # A parameter that is sent to another process goes without it.
            differentiated.__torch_unserializable__ = True  # type: ignore[attr-defined]
            self._handle = watched.register_hook(differentiated)

    def close(self) -> None:
        if self._handle is not None:
            self._handle.remove()

    def taken(self) -> list[Value]:
        """Return the numbers so far, and start again without any."""
        values = [*self.values]
        self.values.clear()
        return values


def _is_small(gradient: Any) -> bool:
    """Return whether the norm of a gradient takes a few microseconds: a small, dense tensor."""
    plain = type(gradient) is torch.Tensor and gradient.layout is torch.strided
    return plain and gradient.numel() <= _LARGEST and gradient.is_floating_point()


def _reduced(
    plans: Mapping[str, CapturePlan | None], values: list[Value], summary: IntervalSummary
) -> Reduced:
    """Return the summaries of values that may still be on their way from a device."""
    part = Reduced()
    steps, losses, norms = zip(*values, strict=True)
    boxes = {LOSS: _sent(losses, part)}
    if GRADIENT in plans:
        boxes[GRADIENT] = _sent(norms, part)

    def finish() -> list[tuple[CapturePlan, Captured]]:
        numbers = {kind: box.tensor.double().numpy() for kind, box in boxes.items()}
        found = {LOSS: summary.losses(steps, numbers[LOSS])}
        if GRADIENT in numbers:
            found[GRADIENT] = summary.norms(steps, numbers[GRADIENT], numbers[LOSS])
        return [
            (plan, _captured(plan, found[kind])) for kind, plan in plans.items() if plan is not None
        ]

    part.finishes.append(finish)
    return part


def _sent(numbers: Sequence[Any], part: Reduced) -> Box:
    """Return numbers as they will be on the host; ``part`` has those of a device."""
    if not isinstance(numbers[0], torch.Tensor):
        return Box(torch.tensor(numbers, dtype=torch.float64))
    with torch.no_grad():
        stacked = torch.stack([*numbers])
    if not stacked.is_cuda:
        return Box(stacked.cpu())
    parcel = Parcel(stacked.device)
    box = parcel.add(stacked)
    parcel.seal()
    part.parcels.append(parcel)
    part.nbytes += parcel.nbytes
    return box


def _captured(plan: CapturePlan, summary: TensorSummary) -> Captured:
    role, kind = plan.saved.place
    shape = (summary.size or 0,)
    return Captured(
        plan.saved.name, shape=shape, dtype="float64", role=role, kind=kind, summary=summary
    )

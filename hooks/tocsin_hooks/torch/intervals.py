"""The loss and a gradient norm of every step, saved or not, for the summary of a save interval."""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any
from weakref import ref

import torch
from tocsin.model import Mode, TensorSummary
from tocsin.tensors import Captured

from tocsin_hooks.interval import GRADIENT, LOSS, IntervalSummary, interval_name
from tocsin_hooks.plan import CapturePlan
from tocsin_hooks.torch.autograd import MUL, backward_pass
from tocsin_hooks.torch.capture.backward import Backward, innermost
from tocsin_hooks.torch.capture.captured import StepInHand
from tocsin_hooks.torch.gradients import parameters_of
from tocsin_hooks.torch.reductions.transfer import Box, Parcel, Reduced

_MOST_STEPS = 10_000  # of an interval; the latest ones count
_LARGEST = 1 << 14  # elements of a gradient whose norm is computed in every step
_VALUE = 4e-6  # seconds of CPU time that a value takes
_HALF = frozenset({torch.float16, torch.bfloat16})

Value = tuple[int, Any]
"""A number with its step: of the host, or a tensor without axes on another device."""

_LOST = "steps between saves are not summarised"


class Intervals:
    """Keeps the loss of every backward pass and the norm of a gradient at every update.

    Each stays on its device until a step of training is saved; nothing waits. Losses belong to the
    optimizer that updates next. Of the gradients of an optimizer one stands for all, the largest
    that is small enough to be read in every step: that of a recurrent layer explodes with the
    others. Not kept: what a closure computes, which may be a try of a line search; and what a
    model that acts or competes computes, where levels say nothing. Where no rule reads these
    numbers, nothing is watched.
    """

    def __init__(self, step: StepInHand) -> None:
        self._step = step
        self._series: dict[int, _Series] = {}  # by the identity of an optimizer
        self._losses: list[Value] = []  # since the last update
        self._generation = -1
        self._is_wanted = False
        self._task = -1  # the last backward pass
        self._scaler: Callable[[], Any] | None = None  # None: not looked for in this interval
        self._counters = step.hook.counters
        step.before_end.append(self._capture)

    def close(self) -> None:
        """Watch nothing any more."""
        for series in self._series.values():
            series.close()
        self._series.clear()
        self._losses.clear()

    def update_begins(self, root: Any, optimizer: Any) -> None:
        """An optimizer is about to update the model, in a step that is looked at. Watch it from now
        on, if a rule reads what this finds."""
        self._follow_rules()
        known = self._series.get(id(optimizer))
        if not self._is_wanted or (known is not None and known.optimizer() is optimizer):
            return
        if known is not None:
            known.close()
        ours = {id(each) for each in root.parameters()}
        held = [each for each in parameters_of(optimizer) if id(each) in ours]
        series = self._series[id(optimizer)] = _Series(ref(optimizer), len(self._series))
        series.watch(
            held,
            partial(self._updating, series),
            partial(self._differentiated, threading.get_ident()),
        )

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

    def _updating(self, series: _Series, _: Any, args: Any, kwargs: Any) -> None:
        if torch.compiler.is_compiling():
            return
        try:
            if len(args) > 1 or kwargs:  # a closure, as a rule
                self._losses.clear()
                return
            if self._losses:
                series.losses += self._losses
                self._losses.clear()
            parameter = series.parameter
            if parameter is not None and (found := parameter.grad) is not None:
                if found.requires_grad:
                    found = found.detach()
                norm = torch.linalg.vector_norm(found, dtype=series.dtype)
                number = self._counters[Mode.GLOBAL] - 1
                series.norms.append((number, norm.item() if norm.is_cpu else norm))
        except Exception as error:  # noqa: BLE001 - a training must not end by this
            self._failed(error)

    def _differentiated(self, thread: int, _: Any) -> None:
        """A gradient of a parameter is there, and its backward pass goes on."""
        try:
            task = backward_pass()
            if task == self._task:
                return
            self._task = task
            here = threading.get_ident() == thread  # on a GPU, gradients come in another
            found = innermost(sys._getframe() if here else sys._current_frames().get(thread))
            if found is None:
                return
            value = found.loss.detach()
            node = found.loss.grad_fn
            if node is not None and node.name() == MUL and (scaler := self._scaler_of(found)):
                value = value / scaler.scale(torch.ones_like(value))
            value = value.item() if value.is_cpu else value.clone()
            self._losses.append((self._counters[Mode.GLOBAL] - 1, value))
        except Exception as error:  # noqa: BLE001 - a training must not end by this
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        with suppress(Exception):  # a handler of the script's log may raise
            self._step.hook.trouble(_LOST, error)

    def _scaler_of(self, found: Backward) -> Any:
        if self._scaler is None:
            scaler = found.scaler()
            self._scaler = (lambda: None) if scaler is None else ref(scaler)
        return self._scaler()

    def _capture(self) -> None:
        """A step is saved, and ends: add the summaries of what came since the one before."""
        if self._step.mode is not Mode.TRAIN:
            return
        self._scaler, self._counters = None, self._step.hook.counters
        beside: list[Value] = []  # losses, of which another optimizer's gradients are as well
        for series in self._series.values():
            losses, norms = series.taken()
            beside = losses or beside
            plans = {
                kind: self._step.plan(interval_name(kind, series.number))
                for kind, values in ((LOSS, losses), (GRADIENT, norms))
                if values and self._step.loss_kind is None  # else levels say nothing
            }
            if any(plans.values()):
                self._step.hook.spent(_VALUE * (len(losses) + len(norms)))
                self._step.add_reduced(_reduced(plans, beside, norms, series.summary))


class _Series:
    """The numbers of one optimizer since the last save: a step and a value each."""

    def __init__(self, optimizer: Callable[[], Any], number: int) -> None:
        self.optimizer = optimizer
        self.number = number
        self.losses = deque[Value](maxlen=_MOST_STEPS)
        self.norms = deque[Value](maxlen=_MOST_STEPS)
        self.parameter: Any = None  # whose gradient stands for all
        self.dtype: Any = None  # of its norm
        self._handles: list[Any] = []
        self.summary = IntervalSummary()

    def watch(
        self,
        held: Iterable[Any],
        updating: Callable[..., None],
        differentiated: Callable[..., None],
    ) -> None:
        """Be called at each update, and when a gradient is there of a parameter of ``held``."""
        given = [each for each in held if each.grad is not None and each.requires_grad]
        small = [each for each in given if _is_small(each.grad)]
        largest = max(small, key=lambda each: each.numel(), default=None)
        if largest is not None:
            self.parameter = largest
            self.dtype = torch.float32 if largest.grad.dtype in _HALF else None
        if given:
            # A parameter that is sent to another process goes without it.
            differentiated.__torch_unserializable__ = True  # type: ignore[attr-defined]
            self._handles.append(given[-1].register_hook(differentiated))
        if (optimizer := self.optimizer()) is not None:
            self._handles.append(optimizer.register_step_pre_hook(updating))

    def close(self) -> None:
        while self._handles:
            self._handles.pop().remove()

    def taken(self) -> tuple[list[Value], list[Value]]:
        """Return losses and norms, which begin again."""
        losses, norms = [*self.losses], [*self.norms]
        self.losses.clear()
        self.norms.clear()
        return losses, norms


def _is_small(gradient: Any) -> bool:
    """Return whether the norm of a gradient takes but a few microseconds, and shows its device."""
    plain = type(gradient) is torch.Tensor and gradient.layout is torch.strided
    return plain and gradient.numel() <= _LARGEST and gradient.is_floating_point()


def _reduced(
    plans: Mapping[str, CapturePlan | None],
    losses: list[Value],
    norms: list[Value],
    summary: IntervalSummary,
) -> Reduced:
    """Return the summaries of values that may be still on their way from a device. Norms may be
    those of another optimizer than losses."""
    part = Reduced()
    boxes = [_sent(values, part) for values in (losses, norms)]

    def finish() -> list[tuple[CapturePlan, Captured]]:
        lost, norm = (box.tensor.double().numpy() for box in boxes)
        steps = [step for step, _ in losses]
        found = {}
        if plans.get(LOSS) is not None:
            found[LOSS] = summary.losses(steps, lost)
        if plans.get(GRADIENT) is not None:
            by_step = dict(zip(steps, lost.tolist(), strict=True))
            found[GRADIENT] = summary.norms([step for step, _ in norms], norm, by_step)
        return [
            (plan, _captured(plan, found[kind])) for kind, plan in plans.items() if plan is not None
        ]

    part.finishes.append(finish)
    return part


def _sent(values: list[Value], part: Reduced) -> Box:
    """Return numbers as they will be on the host; ``part`` has those of a device."""
    numbers = [value for _, value in values]
    if not numbers or not isinstance(numbers[0], torch.Tensor):
        return Box(torch.tensor(numbers, dtype=torch.float64))
    with torch.no_grad():
        stacked = torch.stack(numbers)
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

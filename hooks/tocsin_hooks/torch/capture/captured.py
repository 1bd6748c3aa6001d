"""The tensors of the current step that have been captured so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

import torch
from tocsin.model import Mode

from tocsin_hooks import Hook
from tocsin_hooks.guard import Guard
from tocsin_hooks.looks import Name
from tocsin_hooks.plan import CapturePlan
from tocsin_hooks.torch.reductions.reduce import Reduced, Reducer, gathered

_LARGEST_LOSS = 1024  # elements; of a larger one, per pixel or per token, the mean is kept

Pairs = list[tuple[CapturePlan, Any]]


class CurrentStep:
    """Reduces tensors on their device, and gives a whole step to the hook when it ends.

    It knows nothing of a model. ``passes`` counts the forward passes of the step: a loss that is
    recorded in several becomes their mean, unless the model was called ``again``, for another
    look at what was computed before: then the first counts. In an evaluation the mean is over the
    ``samples`` of its passes.
    """

    def __init__(self, hook: Hook) -> None:
        self.hook = hook
        self.saving = False
        self.passes = 0
        self.samples = 1
        self.again = False
        self.mode = Mode.TRAIN
        self.before_end: list[Callable[[], None]] = []
        """Add the last of what is captured in a step that is saved."""
        self.at_end: Callable[[], None] | None = None
        """Called when a step ends, saved or not."""
        self.is_meant = True
        """True if it is certainly a step: else it is one if a loss or the script's own tensors are
        saved in it."""
        self.loss_kind: str | None = None
        """The kind of losses whose level says nothing: ``COMPETING`` or ``ACTING``."""
        self.labels: set[str] = set()
        """Names of what a model is given, but losses compare: no inputs."""
        self.unlike: set[str] = set()
        """Names of losses of elements that do not count alike: their mean is none."""
        self.without_meaning = 0
        """The number of consecutive ones that were not."""
        self._begun = False
        self._reducer = Reducer(hook.trouble)
        self._parts: list[Any] = []
        self._losses: dict[str, _Loss] = {}
        self._output: tuple[Any, Any] | None = None

    @property
    def synchronisations(self) -> int:
        """The number of times that the host has waited for a device."""
        return self._reducer.synchronisations

    def begin(self, mode: Mode, turn: int | None = None) -> None:
        """``turn`` counts in place of the step's number when it is decided what is saved."""
        self.end()
        self.mode = mode
        self.is_meant = True
        self._begun = True
        self.saving = self.hook.begin(mode, turn=turn)

    def leave_out(self) -> None:
        """Save nothing of the step."""
        self.saving = False
        self._parts, self._losses, self._output = [], {}, None
        self.hook.leave_out()

    def end(self) -> None:
        """End the step; harmless without one."""
        if not self._begun:
            return
        if self.at_end is not None:
            with Guard(self.hook.trouble, "checks are not run"):
                self.at_end()
        if self.saving:
            with Guard(self.hook.trouble, "a step is not captured"), self.hook.measured():
                self._check_meaning()
                if self.hook.saving:
                    for each in self.before_end:
                        each()
                    self._flush()
            self._parts, self._losses, self._output = [], {}, None
        self.passes, self.again = 0, False
        self._begun = self.saving = False
        self.hook.end()

    @property
    def evaluates(self) -> bool:
        """Return whether a step of mode EVAL is open."""
        return self._begun and self.mode is Mode.EVAL

    @property
    def trains(self) -> bool:
        """Return whether a step of mode TRAIN is open."""
        return self._begun and self.mode is Mode.TRAIN

    @property
    def has_losses(self) -> bool:
        """Return whether a loss was captured in this step, which is saved."""
        return bool(self._losses)

    def loss(self) -> float | None:
        """Return the loss of this step, which is saved, if there is one. Waits for the device."""
        found = [each.value() for each in self._losses.values()]
        one = found[0] if len(found) == 1 else None
        return float(one) if one is not None and one.numel() == 1 else None

    def plan(self, name: Name) -> CapturePlan | None:
        return self.hook.plan(name.name, name.collections or None, role=name.role, kind=name.kind)

    def add(self, pairs: Pairs) -> None:
        """Reduce tensors as they are now."""
        if pairs:
            self._parts.append(self._reducer.reduce(pairs, self.mode))

    def add_reduced(self, part: Reduced) -> None:
        """Add a tensor that is reduced, or being reduced on a device."""
        self._parts.append(part)

    def add_named(self, named: Sequence[tuple[Name, Any]]) -> None:
        """Reduce those that rules or the configuration need."""
        wanted = ((name, value) for name, value in named if name.name not in self.labels)
        self.add([(plan, value) for name, value in wanted if (plan := self.plan(name))])

    def add_output(self, name: Name, output: Any) -> None:
        """Add the model's output; it is removed if a loss shows that it is the prediction."""
        if plan := self.plan(name):
            part = self._reducer.reduce([(plan, output)], self.mode)
            self._parts.append(part)
            if plan.raw is None and not plan.reductions and plan.saved.collections == name[1]:
                self._output = ref(output), part

    def add_prediction(self, name: Name, value: Any) -> None:
        if self._output is not None and self._output[0]() is value:
            self._parts = [part for part in self._parts if part is not self._output[1]]
            self._output = None
        self.add_named([(name, value)])

    def add_loss(self, name: Name, value: Any, *, more: bool = False, sums: bool = False) -> None:
        """Add the loss of a forward pass, or ``more`` of it. The loss of the step is their mean,
        or if it ``sums`` them up, their sum."""
        if (self.again and name.name in self._losses) or (value.dim() and name.name in self.unlike):
            return
        if self.loss_kind is not None:
            name = name._replace(kind=self.loss_kind)
        if plan := self.plan(name):
            value = value.detach()
            value = value.clone() if value.numel() <= _LARGEST_LOSS else _wide(value).mean()
            loss = self._losses.setdefault(name.name, _Loss(plan, sums=sums, weighs=self.evaluates))
            loss.add(self.passes, value, self.samples, more=more)

    def forget_loss(self, name: str) -> None:
        """Remove a loss of this forward pass."""
        if name in self._losses:
            self._losses[name].forget(self.passes)

    def _check_meaning(self) -> None:
        if not self.is_meant and not self._losses and self.hook.saves_nothing:
            self.without_meaning += 1
            self.hook.leave_out()
        elif not self.is_meant:
            self.without_meaning = 0

    def _flush(self) -> None:
        values = ((each.plan, each.value()) for each in self._losses.values())
        self.add([(plan, value) for plan, value in values if value is not None])
        if self._parts:
            reduced = gathered(self._parts)
            self.hook.put_later(reduced.finish, reduced.nbytes)


class _Loss:
    """A loss of the current step, by forward passes.

    ``weighs``: of an evaluation, whose passes are as many as it takes. Only a sum over all before
    the last is kept of it, on its device.
    """

    def __init__(self, plan: CapturePlan, *, sums: bool, weighs: bool) -> None:
        self.plan = plan
        self._sums = sums
        self._weighs = weighs
        self._passes: dict[int, tuple[Any, int]] = {}
        self._total: Any = None
        self._weight = 0

    def add(self, number: int, value: Any, samples: int, *, more: bool) -> None:
        """Add the loss of a pass, or ``more`` of it."""
        if more and number in self._passes:
            value = self._passes[number][0] + value
        elif self._weighs and number not in self._passes:
            self._close()
        self._passes[number] = value, samples

    def forget(self, number: int) -> None:
        self._passes.pop(number, None)

    def value(self) -> Any:
        """Return the loss of all passes, or the last if shapes differ; None without any."""
        if self._total is not None:
            self._close()
            return self._total / self._weight
        values = [value for value, _ in self._passes.values()]
        if not values:
            return None
        if len(values) == 1 or any(value.shape != values[0].shape for value in values):
            return values[-1]
        stacked = torch.stack([_wide(value) for value in values])
        return stacked.sum(0) if self._sums else stacked.mean(0)

    def _close(self) -> None:
        """Close the passes so far: nothing is added to them."""
        for value, samples in self._passes.values():
            part = _wide(value).mean() * samples
            self._total = part if self._total is None else self._total + part
            self._weight += samples
        self._passes.clear()


def _wide(value: Any) -> Any:
    return value if value.dtype == torch.float64 else value.float()

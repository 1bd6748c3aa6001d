"""Runs the checks of a user while each of them looks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import torch
from tocsin.contracts import Contract
from tocsin.model import Mode
from torch import nn
from torch.optim import Optimizer

from tocsin_hooks.looks import Name, reported
from tocsin_hooks.script_line import script_line
from tocsin_hooks.torch.calls.loss_call import LossCall
from tocsin_hooks.torch.capture.captured import CurrentStep
from tocsin_hooks.torch.custom.check import MOST_TEXT, Check
from tocsin_hooks.torch.custom.events import (
    Event,
    Finding,
    LossComputed,
    StepEnds,
    UpdateBegins,
    UpdateEnds,
)

_log = logging.getLogger("tocsin")
_MOST_FOUND = 100  # findings of one training


class CustomChecks:
    """Gives each event to the checks that take it. A check leaves when it has looked at its
    training steps, or when it raises; what was found goes into the next saved step."""

    def __init__(
        self, step: CurrentStep, checks: Iterable[Check], model: Callable[[], nn.Module | None]
    ) -> None:
        self._step = step
        self._model = model
        self._checks = [*checks]
        self._seen = 0  # training steps
        self._found: dict[Name, Contract] = {}
        self._saved = set[Name]()

    @property
    def look(self) -> bool:
        """Return whether any check is left."""
        return bool(self._checks)

    @property
    def has_more(self) -> bool:
        """Return whether something was found that no saved step holds."""
        return len(self._saved) < len(self._found)

    def takes(self, event: type[Any]) -> bool:
        return any(each.event is event for each in self._checks)

    def loss(self, call: LossCall, inputs: Iterable[Any]) -> None:
        if self.takes(LossComputed) and self._step.mode is Mode.TRAIN:
            given = call.prediction, call.target, call.value, tuple(inputs)
            self._run(LossComputed(call.name, *given, call.place), call.place)

    def update_begins(self, model: nn.Module, optimizer: Optimizer) -> None:
        if self.takes(UpdateBegins):
            self._run(UpdateBegins(model, optimizer))

    def update_ends(self, model: nn.Module, optimizer: Optimizer) -> None:
        if self.takes(UpdateEnds):
            self._run(UpdateEnds(model, optimizer))

    def step_ends(self) -> None:
        """A step ends, which may be one of an evaluation."""
        model = self._model()
        if not self._checks or not self._step.trains:
            return
        if model is not None and self.takes(StepEnds):
            number = self._step.hook.position[Mode.TRAIN.name] - 1
            self._run(StepEnds(model, number))
        self._seen += 1
        self._checks = [each for each in self._checks if each.looks > self._seen]
        if not self._checks:
            self._step.at_end = None

    def flush(self) -> None:
        """Add what is not saved yet to the current step."""
        for name, contract in self._found.items():
            plan = self._step.hook.plan(name.name, name.collections, role=name.role, asked=True)
            if name not in self._saved and plan is not None:
                described = replace(plan, saved=replace(plan.saved, contract=contract))
                self._step.hook.capture(described, 1.0)
                self._saved.add(name)

    def _run(self, event: Event, place: str = "") -> None:
        for check in [each for each in self._checks if each.event is type(event)]:
            try:
                with torch.no_grad(), self._step.hook.measured():
                    self._add(check.contract, check(event), place)
            except Exception as error:  # noqa: BLE001 - the code is a user's
                self._checks.remove(check)
                text = "check %s is switched off, because it raised %s: %s"
                _log.warning(text, check.contract.id, type(error).__name__, error)

    def _add(self, contract: Contract, found: object, place: str) -> None:
        if found is None or len(self._found) >= _MOST_FOUND:
            return
        if not isinstance(found, Finding):
            raise TypeError(f"it returned a {type(found).__name__}, not a Finding or None")
        name = reported(contract, found.place or place or script_line())
        detail = f"{contract.says}: {found.detail}" if found.detail else contract.says
        self._found.setdefault(name, replace(contract, says=detail[:MOST_TEXT]))

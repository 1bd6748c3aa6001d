"""Runs the checks of a user in their first training steps."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

import torch
from tocsin.contracts import Contract
from tocsin.model import Mode
from torch import nn

from tocsin_hooks.looks import Name, reported
from tocsin_hooks.script_line import script_line
from tocsin_hooks.torch.capture.captured import CurrentStep
from tocsin_hooks.torch.custom.check import MOST_TEXT, Check
from tocsin_hooks.torch.dispatcher import Dispatcher
from tocsin_hooks.torch.events import Event, Finding, LossComputed, StepEnds

_log = logging.getLogger("tocsin")
_MOST_FOUND = 100  # findings of one training


class CustomChecks:
    """Subscribes each check to its event. A check is removed after its training steps, or when it
    raises; its findings go into the next saved step.
    """

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
        """Return whether there are findings that no saved step has."""
        return len(self._saved) < len(self._found)

    @property
    def hears_losses(self) -> bool:
        """Return whether a check still takes losses, and the step is one of training."""
        return self._step.trains and any(each.event is LossComputed for each in self._checks)

    def join(self, events: Dispatcher) -> None:
        """Subscribe the checks to the events from now on."""
        self._events = events
        for check in self._checks:
            events.subscribe(check.event, check, partial(self._run, check))
        self._step.at_end = self._step_ends

    def _step_ends(self) -> None:
        """Handle the end of a step, which may be an evaluation."""
        model = self._model()
        if not self._checks or not self._step.trains:
            return
        if model is not None:
            self._events.tell(StepEnds, model, self._step.hook.position[Mode.TRAIN.name] - 1)
        self._seen += 1
        for check in [each for each in self._checks if each.looks <= self._seen]:
            self._leave(check)
        if not self._checks:
            self._step.at_end = None

    def flush(self) -> None:
        """Add unsaved findings to the current step."""
        for name, contract in self._found.items():
            plan = self._step.hook.plan(name.name, name.collections, role=name.role, asked=True)
            if name not in self._saved and plan is not None:
                described = replace(plan, saved=replace(plan.saved, contract=contract))
                self._step.hook.capture(described, 1.0)
                self._saved.add(name)

    def _leave(self, check: Check) -> None:
        self._checks.remove(check)
        self._events.remove(check)

    def _run(self, check: Check, event: Event) -> None:
        place = ""
        if isinstance(event, LossComputed):
            if self._step.mode is not Mode.TRAIN:
                return
            place = event.place
        try:
            with torch.no_grad(), self._step.hook.measured():
                self._add(check.contract, check(event), place)
        except Exception as error:  # noqa: BLE001 - the code is a user's
            self._leave(check)
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

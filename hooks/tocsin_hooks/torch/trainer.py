"""A TorchHook for the callbacks of trainers, whose evaluations are steps of their own."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from operator import attrgetter
from pathlib import Path
from typing import Any

from tocsin.model import Mode
from tocsin.tensors import Storage

from tocsin_hooks import Hook
from tocsin_hooks.guard import guarded
from tocsin_hooks.settings import given_watch
from tocsin_hooks.torch import TorchHook
from tocsin_hooks.torch.custom.check import load_checks
from tocsin_hooks.torch.driver import Driver
from tocsin_hooks.torch.outermost_calls import Call, OutermostCalls
from tocsin_hooks.torch.training import ModelTraining

_log = logging.getLogger("tocsin")

Out = str | Path | Storage | Hook | None


from_trainer = guarded(attrgetter("_capture.trouble"), "%s of the trainer is not captured")
"""For the methods of a callback, which holds a TrainerCapture as ``_capture``."""


class TrainerCapture:
    """Captures one training after another; a later one continues the run of the last one.

    A trainer knows where a forward pass begins and ends, whichever modules it calls: ``begin``
    and ``end`` say so. An evaluation is one step of mode EVAL, and each is saved, unless
    ``save_interval`` by mode says otherwise: with the activations of its first batch, and with
    what it found.
    """

    def __init__(self, out: Out, options: Mapping[str, Any]) -> None:
        self._out = out
        self._options = dict(options)
        given_watch(options.get("watch"))  # now, for nothing is raised once a training runs
        if checks := options.get("checks"):
            self._options["checks"] = load_checks(checks)
        self._options["save_interval"] = _intervals(options.get("save_interval"))
        self._driver: Driver | None = None
        self._evaluating = False
        self._batches = 0  # of the evaluation in hand
        self._most_batches = 1
        self._calls: OutermostCalls | None = None
        self.torch: TorchHook | None = None

    @property
    def position(self) -> Mapping[str, int] | int | None:
        """The steps begun so far, or the position at which the next training continues."""
        return self.torch.position if self.torch else self._options.get("resumed_from")

    @position.setter
    def position(self, counts: Mapping[str, int] | int | None) -> None:
        self._options["resumed_from"] = counts

    @property
    def should_stop(self) -> bool:
        return self.torch is not None and self.torch.should_stop

    @property
    def _training(self) -> ModelTraining | None:
        return self.torch.training if self.torch is not None else None

    def checkpoint(self, path: str) -> None:
        """Record that the trainer has saved a checkpoint."""
        if self.torch is not None:
            self.torch.hook.checkpoint(path)

    @property
    def saving(self) -> bool:
        """Return whether the current step is saved: check it before computing tensors to save."""
        return self.torch is not None and self.torch.hook.saving

    def open(
        self,
        model: Any,
        accumulate: int,
        *,
        compiled: bool = False,
        losses_add_up: bool = False,
        losses_are_divided: bool = False,
        evaluated_batches: int = 1,
        **options: Any,
    ) -> None:
        """Begin a training. ``options`` are defaults for options that the user did not set.

        ``losses_add_up``: the trainer divides the losses of micro-batches by their number.
        ``losses_are_divided``: by ``accumulate``, also where there are fewer micro-batches.
        ``evaluated_batches``: so many are looked at, each a forward pass of the model itself.
        """
        self.close(finished=False)
        self._most_batches = evaluated_batches
        given: dict[str, Any] = options | self._options
        if isinstance(self._out, Hook):
            given = {key: self._options[key] for key in ("loss", "checks") if key in self._options}
        self.torch = TorchHook.attach(model, self._out, accumulate=accumulate, **given)
        self._driver = Driver(self.torch, compiled=compiled)
        if (training := self._training) is not None:
            training.evaluations.whole = True
            training.loss.adds_up = losses_add_up
            training.loss.divided_by = accumulate if losses_are_divided else 1

    def watch_calls(self, model: Any) -> None:
        """Capture what goes into the model and comes out of it, where the trainer's forward pass
        is more than a call of it: one of the model, or of several of its parts."""
        self._calls = OutermostCalls(model, self._forwarded)

    def begin(self) -> None:
        """Begin a forward pass, in the current mode of the model."""
        if self._calls is not None:
            self._calls.begin()
        if self._driver is not None:
            self._driver.begin()

    def end(self) -> None:
        """End the forward pass; losses, gradients and the optimizer follow."""
        if self._driver is not None:
            self._driver.end()

    def breaks(self, contract: str, place: str) -> None:
        """Record that the trainer breaks a contract, in that line."""
        if self._training is not None:
            self._training.breaks(contract, place)

    def evaluated(self) -> None:
        """A batch of an evaluation is through: after the first few none is looked at."""
        if self._driver is not None and not self._evaluating:
            self._batches += 1
            if self._batches == self._most_batches:
                self._pause()

    def end_evaluation(self, found: Mapping[str, Any]) -> None:
        """An evaluation has ended, and found that. Without a batch it is a step all the same."""
        if (training := self._training) is None:
            return
        if not self._batches:
            training.begin_evaluation()
        elif not self._evaluating:
            self._pause()
        self.save_scalars(found)
        self._evaluating, self._batches = False, 0
        training.resume()

    def _pause(self) -> None:
        self._evaluating = True
        if self._training is not None:
            self._training.pause()

    def save_scalars(self, values: Mapping[str, Any]) -> None:
        """Save numbers of the step in hand: losses by their names, the others as metrics."""
        if self.torch is not None and self.torch.hook.saving:
            for name, value in values.items():
                self.torch.save(name, value, "losses" if "loss" in name.lower() else "metrics")

    @guarded(attrgetter("trouble"), "what a model is called with is not captured")
    def _forwarded(self, call: Call) -> None:
        if self._training is not None and not self._evaluating:
            self._training.model_called(call)

    def close(self, *, finished: bool | None = None) -> None:
        """The training has ended. A Hook that was given stays open."""
        if self.torch is not None:
            hook, self.torch, self._driver = self.torch, None, None
            self.position = hook.position
            self._evaluating, self._batches = False, 0
            if self._calls is not None:
                self._calls.remove()
                self._calls = None
            hook.close(finished=finished)

    def trouble(self, what: str, error: Exception) -> None:
        if self.torch is not None:
            self.torch.hook.trouble(what, error)
        else:
            _log.error("nothing is captured: %s: %s", what, error)


def _intervals(interval: Any) -> Mapping[Mode, int]:
    """Return the save intervals, in which every evaluation is saved: it is a single step."""
    if interval is None or isinstance(interval, Mapping):
        return {Mode.EVAL: 1, **(interval or {})}
    return {**dict.fromkeys(Mode, interval), Mode.EVAL: 1}

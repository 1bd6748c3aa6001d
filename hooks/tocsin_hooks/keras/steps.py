"""Steps of a run, with or without a look at their batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from tocsin.model import Mode

from tocsin_hooks import Hook
from tocsin_hooks.keras.batches import VISIBLE


class Steps(Protocol):
    def begin(self, mode: Mode) -> bool:
        """Begin a step, and say whether it is saved."""

    def end(self) -> None:
        """End it; harmless without one."""

    def called(self, model: Any, given: Mapping[str, Any]) -> None:
        """``compute_loss`` of the model is given ``x``, ``y`` and ``y_pred``."""


def steps_of(hook: Hook) -> Steps:
    if VISIBLE:
        from tocsin_hooks.keras.checks import BatchChecks

        return BatchChecks(hook)
    return _Unseen(hook)


class _Unseen:
    """Steps of which the batches are not seen."""

    def __init__(self, hook: Hook) -> None:
        self._hook = hook

    def begin(self, mode: Mode) -> bool:
        return self._hook.begin(mode)

    def end(self) -> None:
        self._hook.end()

    def called(self, model: Any, given: Mapping[str, Any]) -> None:
        """There is nothing to look at: the step is compiled."""

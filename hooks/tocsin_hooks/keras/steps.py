"""Steps of a run, with a look at their batches: as they are computed, or afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import keras
from tocsin.model import Mode

from tocsin_hooks import Hook
from tocsin_hooks.keras.batches import BatchWatch, Given
from tocsin_hooks.keras.compiled import CompiledWatch
from tocsin_hooks.keras.eager import EagerWatch

EAGER = keras.backend.backend() == "torch"
"""True if steps are computed call by call. JAX and TensorFlow compile them."""

Interval = int | Mapping[Mode, int]


class Steps(Protocol):
    def begin(self, mode: Mode) -> bool:
        """Begin a step, and say whether it is saved."""

    def end(self) -> None:
        """End it; harmless without one."""

    def called(self, model: Any, given: Given) -> None:
        """A batch of the step is computed."""


def batch_watch() -> BatchWatch:
    return EagerWatch() if EAGER else CompiledWatch()


def steps_of(hook: Hook) -> Steps:
    if EAGER:
        from tocsin_hooks.keras.eager_checks import EagerChecks

        return EagerChecks(hook)
    from tocsin_hooks.keras.compiled_checks import CompiledChecks

    return CompiledChecks(hook)


def intervals(interval: Interval | None) -> Mapping[Mode, int]:
    """Return the save interval of each mode: every evaluation is saved, as it is a single step."""
    if interval is None or isinstance(interval, Mapping):
        return {Mode.EVAL: 1, **(interval or {})}
    return {**dict.fromkeys(Mode, interval), Mode.EVAL: 1}

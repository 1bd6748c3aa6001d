from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tocsin.model import Reason, Verdict
from tocsin.rules import (
    MACHINE,
    SAGEMAKER,
    Meta,
    Reads,
    Rule,
    State,
    Step,
    Tensor,
    register,
    tensor_key,
)
from tocsin.rules._verdicts import HEALTHY, UNDECIDED, measured, violation, worst_verdict
from tocsin.rules.machine._machine import MOST_DEVICES, device, none_of, system, where
from tocsin.rules.machine._recent import percents

_PLACES = 3  # decimal places of what a state keeps


@register
@dataclass(frozen=True)
class GPUMemoryIncrease(Rule):
    """The memory of a GPU rises.

    Amazon's rule, for existing configurations; MemoryLeak finds slow leaks and predicts when the
    memory will be full. Fires if the mean memory in use in a window of ``window`` samples is more
    than ``increase`` points above that of the window before, after more than ``patience`` samples.
    Amazon's profiler measures the share of time in which memory was read or written, under the name
    GPUMemoryUtilization, so in its files no leak shows. Windows do not overlap; Amazon's did, and a
    rise of 24 points did not fire.

    Parameters
    ----------
    increase: largest rise from one window to the next, in percentage points.
    patience: number of samples of a GPU before the first verdict; 1000 samples, one per 500 ms,
        take 8 min 20 s.
    window: number of samples of a window.

    Example: the memory in use rises from 20 % to 44 % within 10 samples.
    """

    about: ClassVar[str] = MACHINE
    profiles: ClassVar[tuple[str, ...]] = (SAGEMAKER,)
    causes: ClassVar[str] = "Tensors that are kept from step to step, or inputs of growing sizes."
    advice: ClassVar[str] = (
        "Detach what is kept over steps (loss.item()), or take a GPU with more memory."
    )

    increase: Annotated[float, Meta(ge=0, le=100)] = 5.0
    patience: Annotated[int, Meta(ge=0)] = 1000
    window: Annotated[int, Meta(ge=1, le=100_000)] = 10

    def reads(self) -> Reads:
        return Reads(
            {"used": system("gpu_memory"), "activity": system("gpu_memory_activity", values=True)}
        )

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        known: dict[tuple[str, str], Tensor] = {}
        for tensor in (*step.tensors["activity"], *step.tensors["used"]):
            known[tensor.worker, device(tensor)] = tensor
        found, verdicts = dict(state), []
        for tensor in known.values():
            key, new = tensor_key(tensor), percents(tensor)
            if new is None or (key not in found and len(found) >= MOST_DEVICES):
                continue
            found[key], rise = self._risen(found.get(key, {}), new)
            if rise is not None:
                verdicts.append(self._judged(tensor, rise))
        if not found:
            return state, none_of("memory of a GPU")
        return found, worst_verdict(verdicts) if verdicts else UNDECIDED

    def _risen(
        self, before: Mapping[str, Any], new: NDArray[np.float64]
    ) -> tuple[dict[str, Any], float | None]:
        """The state of a GPU, and the largest rise of a window that ended in this minute."""
        points, size = before.get("points", 0), before.get("size", 0)
        total, last = before.get("sum", 0.0), before.get("last")
        rise: float | None = None
        while new.size:
            part, new = new[: self.window - size], new[self.window - size :]
            points, size, total = points + part.size, size + part.size, total + float(part.sum())
            if size == self.window:
                mean = round(total / size, _PLACES)
                if last is not None and points > self.patience:
                    rise = max(mean - last, rise if rise is not None else mean - last)
                size, total, last = 0, 0.0, mean
        return {"points": points, "size": size, "sum": round(total, _PLACES), "last": last}, rise

    def _judged(self, tensor: Tensor, rise: float) -> Verdict:
        verdict = HEALTHY
        if rise > self.increase:
            within = f"within {self.window} samples"
            detail = f"the memory of {where(tensor)} rose by {rise:.1f} points {within}"
            verdict = violation(Reason.INCREASING, detail, tensor, increase=round(rise, 2))
        return measured(verdict, rise, self.increase)

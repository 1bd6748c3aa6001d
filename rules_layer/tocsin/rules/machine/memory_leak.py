from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Annotated, ClassVar

from tocsin.model import Reason, Verdict
from tocsin.rules import MACHINE, Meta, Reads, Rule, State, Step, Tensor, register, tensor_key
from tocsin.rules._verdicts import HEALTHY, UNDECIDED, measured, violation
from tocsin.rules.machine._machine import MOST_DEVICES, device, known, none_of, system

_PIECES = 10  # of the window: the state keeps the minimum of each


@register
@dataclass(frozen=True)
class MemoryLeak(Rule):
    """Memory use grows steadily, and the memory will soon be full.

    Takes the minimum of the memory in use in each tenth of the last ``window`` minutes, for the
    host (or its container's limit) and for each GPU. Memory that goes up and down returns to its
    minima. Fires when their trend (the Theil–Sen slope) reaches 100 % within ``forecast`` minutes,
    and they have gained more than ``gained`` percentage points.

    Parameters
    ----------
    window: number of the latest minutes that are judged.
    forecast: largest number of minutes until the memory is full.
    gained: percentage points between the first and the last minute of the window.

    Example: the memory in use grows from 40 to 64 % in half an hour.
    """

    about: ClassVar[str] = MACHINE
    causes: ClassVar[str] = (
        "Losses or outputs kept in a list with their graphs (append loss.item() instead), a cache "
        "without a limit, or loader workers that copy a Python list bit by bit."
    )
    advice: ClassVar[str] = (
        "Look for lists that grow in the loop or in callbacks, and keep numbers, not tensors. "
        "Compare snapshots of tracemalloc, or torch.cuda.memory_summary(), some minutes apart."
    )

    window: Annotated[int, Meta(ge=10, le=600)] = 30
    forecast: Annotated[float, Meta(gt=0)] = 60.0
    gained: Annotated[float, Meta(ge=0, le=100)] = 5.0

    def reads(self) -> Reads:
        return Reads({"memory": system("memory", "gpu_memory", fields=("min",))})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        memory = known(step.tensors["memory"], "min")[:MOST_DEVICES]
        if not memory:
            return state, none_of("memory in use")
        first = state.get("first", step.step)
        piece = int((step.step - first) * _PIECES / self.window)
        begins = piece > state.get("piece", 0)
        devices: dict[str, list[float]] = {}
        keys = [tensor_key(tensor) for tensor in memory]
        for key, tensor in zip(keys, memory, strict=True):
            least = round(tensor.summary.min or 0.0, 1)
            *minima, now = state.get("devices", {}).get(key, [least])
            whole = [*minima, now][-_PIECES:] if begins else minima
            devices[key] = [*whole, least if begins else min(now, least)]
        state = {"first": first, "piece": piece, "devices": devices}
        judged = [
            (*self._grows(minima), tensor, minima)
            for key, tensor in zip(keys, memory, strict=True)
            if len(minima := devices[key][:-1]) >= _PIECES
        ]
        if not judged:
            return state, UNDECIDED
        minutes, slope, tensor, minima = min(judged, key=lambda each: each[0])
        if minutes > self.forecast:
            return state, measured(HEALTHY, minutes, self.forecast, "below")
        found = self._found(minutes, tensor, slope, minima)
        return state, measured(found, minutes, self.forecast, "below", "minutes_left")

    def _grows(self, minima: Sequence[float]) -> tuple[float, float]:
        """Return the minutes until it is full, and the slope in points per minute."""
        if minima[-1] - minima[0] <= self.gained:
            return math.inf, 0.0
        slope = (
            median(
                (later - earlier) / (there - here)
                for here, earlier in enumerate(minima)
                for there, later in enumerate(minima)
                if there > here
            )
            * _PIECES
            / self.window
        )
        return ((100 - minima[-1]) / slope if slope > 0 else math.inf), slope

    def _found(
        self, minutes: float, tensor: Tensor, slope: float, minima: Sequence[float]
    ) -> Verdict:
        name = device(tensor)
        what = tensor.worker if name == "memory" else f"{name} of {tensor.worker}"
        detail = (
            f"memory in use on {what} grew from {minima[0]:.0f} to {minima[-1]:.0f} % in "
            f"{self.window} minutes; it will be full in {minutes:.0f} minutes"
        )
        evidence = {
            "points_per_minute": round(slope, 3),
            "minutes_left": round(minutes, 1),
            "used_percent": minima[-1],
        }
        return violation(Reason.INCREASING, detail, tensor, **evidence)

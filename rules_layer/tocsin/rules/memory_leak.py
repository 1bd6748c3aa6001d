from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Annotated, ClassVar

from tocsin.model import Reason, Verdict
from tocsin.rules import (
    HEALTHY,
    MACHINE,
    UNDECIDED,
    Meta,
    Reads,
    Rule,
    State,
    Step,
    Tensor,
    register,
    violation,
)
from tocsin.rules._machine import device, devices, none_of, system


@register
@dataclass(frozen=True)
class MemoryLeak(Rule):
    """Memory in use grows steadily and will be full soon.

    Looks at the least memory in use in each of the last ``window`` minutes, of the host (or of its
    container's limit) and of each GPU. Minima, because memory that goes up and down comes back to
    them. Fires when their trend (the median slope between any two, Theil and Sen's) reaches 100 %
    within ``forecast`` minutes, and they have gained more than ``gained`` points.

    Parameters
    ----------
    window: minutes.
    forecast: minutes until the memory is full.
    gained: points of % between the first and the last minute of the window.

    Example: the memory in use grows from 40 to 64 % in half an hour.
    """

    about: ClassVar[str] = MACHINE
    causes: ClassVar[str] = (
        "Losses or outputs kept in a list with their graphs (append loss.item() instead), a cache "
        "without a limit, or loader workers that copy a Python list bit by bit."
    )
    advice: ClassVar[str] = (
        "Look for lists that grow in the loop, detach what is kept, and compare "
        "torch.cuda.memory_summary() or tracemalloc snapshots some minutes apart."
    )

    window: Annotated[int, Meta(ge=5, le=120)] = 30
    forecast: Annotated[float, Meta(gt=0)] = 60.0
    gained: Annotated[float, Meta(ge=0, le=100)] = 5.0

    def reads(self) -> Reads:
        return Reads({"memory": system("memory", "gpu_memory", fields=("min",))})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        memory = step.tensors["memory"]
        if not memory:
            return state, none_of("memory in use")
        windows: dict[str, list[list[float]]] = {}
        found: list[tuple[float, Tensor, float, list[list[float]]]] = []
        for key, tensor in devices(memory):
            if (least := tensor.summary.min) is None:
                continue
            kept = [*state.get(key, ()), [step.step, round(least, 2)]]
            windows[key] = kept[-self.window :]
            grown = self._grows(windows[key])
            if grown is not None:
                slope, minutes = grown
                found.append((minutes, tensor, slope, windows[key]))
        if not found:
            known = any(len(window) >= self.window for window in windows.values())
            return windows, HEALTHY if known else UNDECIDED
        return windows, self._found(*min(found, key=lambda each: each[0]))

    def _grows(self, window: Sequence[Sequence[float]]) -> tuple[float, float] | None:
        """The slope in points per minute and the minutes until it is full, if that is soon."""
        if len(window) < self.window or window[-1][1] - window[0][1] <= self.gained:
            return None
        slope = median(
            (later[1] - earlier[1]) / (later[0] - earlier[0])
            for at, earlier in enumerate(window)
            for later in window[at + 1 :]
            if later[0] > earlier[0]
        )
        if slope <= 0 or (minutes := (100 - window[-1][1]) / slope) > self.forecast:
            return None
        return slope, minutes

    def _found(
        self, minutes: float, tensor: Tensor, slope: float, window: list[list[float]]
    ) -> Verdict:
        name = device(tensor)
        what = tensor.worker if name == "memory" else f"{name} of {tensor.worker}"
        detail = (
            f"memory in use on {what} grew from {window[0][1]:.0f} to {window[-1][1]:.0f} % in "
            f"{window[-1][0] - window[0][0]:.0f} minutes; it is full in {minutes:.0f} minutes"
        )
        evidence = {
            "points_per_minute": round(slope, 3),
            "minutes_left": round(minutes, 1),
            "used_percent": window[-1][1],
        }
        return violation(Reason.INCREASING, detail, tensor, **evidence)

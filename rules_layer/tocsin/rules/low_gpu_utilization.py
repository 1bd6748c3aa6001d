from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

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
from tocsin.rules._machine import STEPS, devices, mean, none_of, system, trained, where

_USED = 1.0  # % that a GPU must reach once in the window to count as used


@register
@dataclass(frozen=True)
class LowGPUUtilization(Rule):
    """All GPUs of the training are idle most of the time.

    Fires when over ``minutes`` minutes more than 95 % of the samples of each GPU that is used at
    all are below ``threshold`` %. So a pause for an evaluation or a model checkpoint does not
    fire, nor one idle GPU beside busy ones. Only minutes in which a training step ended count, and
    the first five do not.

    The utilization is the share of time in which any kernel ran. A GPU can be used 100 % by small
    kernels and still do little.

    Parameters
    ----------
    threshold: utilization in %.
    minutes: how many minutes are looked at.

    Example: for ten minutes both GPUs are used 30 %, with a few samples above 50 %.
    """

    about: ClassVar[str] = MACHINE
    options: ClassVar[dict[str, Any]] = {"grace": 5}
    causes: ClassVar[str] = (
        "Small batches, much work on the host between kernels, waiting for data (InputBottleneck "
        "then says so), or a machine that is larger than the model needs."
    )
    advice: ClassVar[str] = (
        "Enlarge the batch, use mixed precision and torch.compile, log and synchronize less "
        "often, or take a smaller instance."
    )

    threshold: Annotated[float, Meta(gt=0, le=100)] = 50.0
    minutes: Annotated[int, Meta(ge=1, le=60)] = 10

    def reads(self) -> Reads:
        return Reads(
            {
                "gpu": system("gpu_utilization", fields=("mean", "max"), values=True),
                "active": system("gpu_sm_active"),
                "steps": STEPS,
            }
        )

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        gpus = step.tensors["gpu"]
        if not gpus:
            return state, none_of("utilization of a GPU")
        if not trained(step):
            return state, UNDECIDED
        minute = {
            key: counts for key, gpu in devices(gpus) if (counts := self._counts(gpu)) is not None
        }
        window = [*state.get("minutes", ()), minute][-self.minutes :]
        state = {"minutes": window}
        if len(window) < self.minutes:
            return state, UNDECIDED
        used = {key: found for key, _ in devices(gpus) if (found := _over(window, key))[2] > _USED}
        if not used:
            return state, UNDECIDED
        if any(above >= 0.05 * size for size, above, _ in used.values()):
            return state, HEALTHY
        return state, self._found(step, used)

    def _counts(self, gpu: Tensor) -> tuple[int, int, float] | None:
        """The samples of a minute, those at the threshold and above, and the maximum."""
        if gpu.value is None:
            return None
        known = gpu.value[np.isfinite(gpu.value)]
        if known.size == 0:
            return None
        return int(known.size), int((known >= self.threshold).sum()), round(float(known.max()), 1)

    def _found(self, step: Step, used: Mapping[str, tuple[int, int, float]]) -> Verdict:
        gpus = [gpu for key, gpu in devices(step.tensors["gpu"]) if key in used]
        average = mean(gpus) or 0.0
        evidence: dict[str, float | int | str] = {
            "mean_utilization": round(average, 1),
            "gpus": len(gpus),
            "threshold": self.threshold,
        }
        if (active := mean(step.tensors["active"])) is not None:
            evidence["sm_active"] = round(active, 1)
        which = where(gpus[0]) if len(gpus) == 1 else f"all {len(gpus)} GPUs in use"
        detail = (
            f"{which} below {self.threshold:g} % for {self.minutes} minutes; "
            f"{average:.0f} % on average in the last one"
        )
        return violation(Reason.BELOW_THRESHOLD, detail, gpus[0], **evidence)


def _over(window: list[Mapping[str, Any]], key: str) -> tuple[int, int, float]:
    """The counts of a GPU over several minutes."""
    found = [minute[key] for minute in window if key in minute]
    highest = max((each[2] for each in found), default=0.0)
    return sum(each[0] for each in found), sum(each[1] for each in found), highest

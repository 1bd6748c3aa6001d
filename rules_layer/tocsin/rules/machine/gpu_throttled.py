from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from tocsin.model import Reason, Verdict
from tocsin.rules import MACHINE, Meta, Reads, Rule, State, Step, register
from tocsin.rules._verdicts import HEALTHY, measured, violation
from tocsin.rules.machine._machine import known, none_of, system, where


@register
@dataclass(frozen=True)
class GPUThrottled(Rule):
    """A GPU is slowed down, because it is too hot or gets too little power.

    Fires when in each of three minutes a GPU reported a slowdown in more than ``share`` of the
    samples: by its hardware, by its temperature, or by a power brake. A GPU at its normal power cap
    is not slowed down in this sense.

    Parameters
    ----------
    share: largest share of the samples with a slowdown, from 0 to 1.

    Example: 30 of 120 samples of a minute, three times in a row.
    """

    about: ClassVar[str] = MACHINE
    options: ClassVar[dict[str, Any]] = {"for_steps": 3}
    causes: ClassVar[str] = "Cooling that fails, dust, a hot room, or a faulty power supply."
    advice: ClassVar[str] = (
        "Move the job to another machine, and report this one: in a synchronous training all "
        "workers are as slow as this GPU."
    )

    share: Annotated[float, Meta(gt=0, lt=1)] = 0.2

    def reads(self) -> Reads:
        return Reads({"slowdown": system("gpu_slowdown"), "temperature": system("gpu_temperature")})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        slowdowns = known(step.tensors["slowdown"], "mean")
        if not slowdowns:
            return state, none_of("clocks of a GPU")
        slowest = max(slowdowns, key=lambda gpu: gpu.summary.mean or 0.0)
        share = slowest.summary.mean or 0.0
        if share <= self.share:
            return state, measured(HEALTHY, share, self.share)
        evidence = {"slowdown_share": share}
        for gpu in step.tensors["temperature"]:
            if where(gpu) == where(slowest) and gpu.summary.mean is not None:
                evidence["temperature"] = gpu.summary.mean
        heat = f" at {evidence['temperature']:.0f} °C" if "temperature" in evidence else ""
        detail = f"{where(slowest)} was slowed down {100 * share:.0f} % of the time{heat}"
        found = violation(Reason.ABOVE_THRESHOLD, detail, slowest, **evidence)
        return state, measured(found, share, self.share)

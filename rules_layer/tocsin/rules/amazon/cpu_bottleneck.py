from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from tocsin.model import Verdict
from tocsin.rules import MACHINE, SAGEMAKER, Meta, Reads, Rule, State, Step, register
from tocsin.rules.amazon._bottleneck import judged
from tocsin.rules.machine._machine import system


@register
@dataclass(frozen=True)
class CPUBottleneck(Rule):
    """The GPUs are idle while a core is busy.

    Amazon's rule, for existing configurations; InputBottleneck and LowGPUUtilization give more
    detail and a cause. Fires if in more than ``threshold`` % of all samples since the start, after
    more than ``patience``, every GPU of a machine is below ``gpu_threshold`` and a core is above
    ``cpu_threshold``. Each machine is judged by itself; Amazon's rule added machines up, and
    reported one idle GPU of several as a bottleneck.

    Parameters
    ----------
    threshold: largest share of such samples, in %.
    gpu_threshold: utilization in % below which a GPU is idle.
    cpu_threshold: utilization in % above which a core is busy.
    patience: number of samples of a machine before the first verdict; 1000 samples, one per 500 ms,
        take 8 min 20 s.

    Example: in 60 % of the samples the only GPU is at 5 % and a core at 95 %.
    """

    about: ClassVar[str] = MACHINE
    profiles: ClassVar[tuple[str, ...]] = (SAGEMAKER,)
    causes: ClassVar[str] = (
        "Data is loaded or preprocessed by too few processes, or Python itself takes the time "
        "between the kernels."
    )
    advice: ClassVar[str] = (
        "Use more loader workers, prefetch, and preprocess before the training or on the GPU."
    )

    threshold: Annotated[float, Meta(ge=0, le=100)] = 50.0
    gpu_threshold: Annotated[float, Meta(ge=0, le=100)] = 10.0
    cpu_threshold: Annotated[float, Meta(ge=0, le=100)] = 90.0
    patience: Annotated[int, Meta(ge=0)] = 1000

    def reads(self) -> Reads:
        return Reads(
            {
                "gpu": system("gpu_utilization", values=True),
                "core": system("cpu_busiest", values=True),
            }
        )

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        limits = self.threshold, self.gpu_threshold, self.cpu_threshold
        busy = f"was above {self.cpu_threshold:g} %"
        return judged(state, step, limits, self.patience, busy)

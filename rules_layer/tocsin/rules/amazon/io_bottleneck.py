from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from tocsin.model import Verdict
from tocsin.rules import MACHINE, SAGEMAKER, Meta, Reads, Rule, State, Step, register
from tocsin.rules.amazon._bottleneck import judged
from tocsin.rules.machine._machine import system


@register
@dataclass(frozen=True)
class IOBottleneck(Rule):
    """The GPUs are idle while a core waits for disks.

    Amazon's rule, for existing configurations; InputBottleneck finds slow storage by the time that
    the training waits for data. Fires if in more than ``threshold`` % of all samples, after more
    than ``patience``, every GPU of a machine is below ``gpu_threshold`` and a core waits for more
    than ``io_threshold`` % of the time. Network storage causes no such wait, and containers often
    report 0; the rule is then silent. Each machine is judged by itself; Amazon's rule added
    machines up, and reported one idle GPU of several as a bottleneck. Amazon's documents give a
    ``gpu_threshold`` of 70; the service used 10.

    Parameters
    ----------
    threshold: largest share of such samples, in %.
    gpu_threshold: utilization in % below which a GPU is idle.
    io_threshold: share of its time in % above which a core waits for disks.
    patience: number of samples of a machine before the first verdict; 1000 samples, one per 500 ms,
        take 8 min 20 s.

    Example: in 60 % of the samples the only GPU is at 5 % and a core waits 60 % of the time.
    """

    about: ClassVar[str] = MACHINE
    profiles: ClassVar[tuple[str, ...]] = (SAGEMAKER,)
    causes: ClassVar[str] = (
        "Data is read from a slow disk, in many small files, or without prefetching."
    )
    advice: ClassVar[str] = (
        "Prefetch, pack small files into large ones, keep a copy on a local disk or in memory."
    )

    threshold: Annotated[float, Meta(ge=0, le=100)] = 50.0
    gpu_threshold: Annotated[float, Meta(ge=0, le=100)] = 10.0
    io_threshold: Annotated[float, Meta(ge=0, le=100)] = 50.0
    patience: Annotated[int, Meta(ge=0)] = 1000

    def reads(self) -> Reads:
        return Reads(
            {"gpu": system("gpu_utilization", values=True), "core": system("cpu_wait", values=True)}
        )

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        limits = self.threshold, self.gpu_threshold, self.io_threshold
        waits = f"waited for disks more than {self.io_threshold:g} % of the time"
        return judged(state, step, limits, self.patience, waits)

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

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
from tocsin.rules.machine._machine import MOST_DEVICES, by_worker, device, highest, none_of, system
from tocsin.rules.machine._recent import FEW, Kept, appended, percents, shares


@register
@dataclass(frozen=True)
class BatchSize(Rule):
    """The batch is too small for the machine: its cores and GPUs are mostly idle.

    Amazon's rule, for existing configurations; LowGPUUtilization does not fire while a GPU works.
    Fires if over the last ``window`` samples of a machine, after more than ``patience``, the 95th
    percentiles of the mean of its cores, and of the utilization and the memory of each GPU, are all
    below their thresholds. One busy core of many does not prevent it; the evidence names the
    busiest one. Judges the memory in use if it is known; Amazon's profiler measures the share of
    time in which memory was read or written.

    Parameters
    ----------
    cpu_threshold_p95: limit of the 95th percentile of the mean of the cores, in %.
    gpu_threshold_p95: limit of the 95th percentile of a GPU's utilization, in %.
    gpu_memory_threshold_p95: limit of the 95th percentile of a GPU's memory, in %.
    patience: number of samples of a machine before the first verdict; 1000 samples, one per 500 ms,
        take 8 min 20 s.
    window: number of the latest samples that are judged.

    Example: cores at 50 %, the GPU at 50 % and its memory at 50 %.
    """

    about: ClassVar[str] = MACHINE
    profiles: ClassVar[tuple[str, ...]] = (SAGEMAKER,)
    causes: ClassVar[str] = "A small batch or model on a large machine."
    advice: ClassVar[str] = "Enlarge the batch, or take a smaller instance."

    cpu_threshold_p95: Annotated[float, Meta(ge=0, le=100)] = 70.0
    gpu_threshold_p95: Annotated[float, Meta(ge=0, le=100)] = 70.0
    gpu_memory_threshold_p95: Annotated[float, Meta(ge=0, le=100)] = 70.0
    patience: Annotated[int, Meta(ge=0)] = 1000
    window: Annotated[int, Meta(ge=1, le=100_000)] = 500

    def reads(self) -> Reads:
        return Reads(
            {
                "cpu": system("cpu", values=True),
                "busiest": system("cpu_busiest"),
                "gpu": system("gpu_utilization", values=True),
                "activity": system("gpu_memory_activity", values=True),
                "used": system("gpu_memory"),
            }
        )

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        memory: dict[tuple[str, str], Tensor] = {}
        for tensor in (*step.tensors["activity"], *step.tensors["used"]):
            memory[tensor.worker, device(tensor)] = tensor
        cpus = by_worker(step.tensors["cpu"])
        found: dict[str, Kept] = {}
        verdicts: list[Verdict] = []
        for gpu in step.tensors["gpu"]:
            place = gpu.worker, device(gpu)
            if gpu.worker not in cpus or place not in memory or len(found) >= MOST_DEVICES:
                continue
            new = [percents(each) for each in (cpus[gpu.worker][0], gpu, memory[place])]
            counted = self._counted([each for each in new if each is not None])
            if counted is None:
                continue
            key = tensor_key(gpu)
            found[key] = appended(state.get(key, ()), *counted, self.window)
            if found[key][0] > max(self.patience, self.window):
                verdicts.append(self._judged(gpu, found[key], step))
        if not found:
            return state, none_of("GPU with its memory and cores")
        return found, worst_verdict(verdicts) if verdicts else UNDECIDED

    def _counted(self, series: Sequence[NDArray[np.float64]]) -> tuple[int, list[int]] | None:
        """Return the number of samples, and how many of cores, GPU and memory are not low."""
        limits = (self.cpu_threshold_p95, self.gpu_threshold_p95, self.gpu_memory_threshold_p95)
        if len(series) < len(limits):
            return None
        size = min(each.size for each in series)
        high = [
            int((each[:size] >= limit).sum()) for each, limit in zip(series, limits, strict=True)
        ]
        return size, high

    def _judged(self, gpu: Tensor, kept: Kept, step: Step) -> Verdict:
        cpu, used, memory = shares(kept, 3)
        verdict = HEALTHY
        if max(cpu, used, memory) <= FEW:
            detail = (
                f"for 95 % of the time, the cores of {gpu.worker} are below "
                f"{self.cpu_threshold_p95:g} %, {device(gpu)} is below "
                f"{self.gpu_threshold_p95:g} %, and its memory is below "
                f"{self.gpu_memory_threshold_p95:g} %"
            )
            evidence = {"busy_share": round(max(cpu, used, memory), 3)}
            if gpu.summary.mean is not None:
                evidence["mean_utilization"] = round(gpu.summary.mean, 1)
            own = [each for each in step.tensors["busiest"] if each.worker == gpu.worker]
            if (busiest := highest(own)) is not None:
                evidence["busiest_core"] = round(busiest, 1)
            verdict = violation(Reason.BELOW_THRESHOLD, detail, gpu, **evidence)
        return measured(verdict, max(cpu, used, memory), FEW, "below")

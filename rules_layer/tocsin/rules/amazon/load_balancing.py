from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Annotated, Any, ClassVar

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
from tocsin.rules.machine._machine import MOST_DEVICES, by_worker, known, none_of, system, where

_USED = 1.0  # % that a GPU must reach once to count
_MINUTES = 5  # consecutive minutes that must show it


@register
@dataclass(frozen=True)
class LoadBalancing(Rule):
    """A GPU does far more or less than the others of its machine.

    Amazon's rule, for existing configurations. Fires if the mean utilization of a GPU differs from
    the median of the others by more than ``threshold`` in each of the last five minutes, after more
    than ``patience`` samples. Ignores a GPU that was never used: GPUNotUsed names it. Here
    ``threshold`` is a difference of utilizations, so 0.2 means 20 points; Amazon's rule compared
    the last GPU with itself and could not fire.

    Parameters
    ----------
    threshold: largest difference from the other GPUs' utilization, from 0 to 1.
    patience: number of samples of a GPU before the first verdict; 1000 samples, one per 500 ms,
        take 8 min 20 s.

    Example: of four GPUs, three are 95 % utilized and one 60 %.
    """

    about: ClassVar[str] = MACHINE
    profiles: ClassVar[tuple[str, ...]] = (SAGEMAKER,)
    causes: ClassVar[str] = (
        "Layers or shards of different sizes, DataParallel (which gathers on the first GPU), or "
        "another program on a GPU."
    )
    advice: ClassVar[str] = (
        "Use DistributedDataParallel, and split the model and the batches evenly."
    )

    threshold: Annotated[float, Meta(ge=0, le=1)] = 0.2
    patience: Annotated[int, Meta(ge=0)] = 1000

    def reads(self) -> Reads:
        return Reads({"gpu": system("gpu_utilization", fields=("mean", "max", "size"))})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        all_gpus = known(step.tensors["gpu"], "mean")
        if not all_gpus:
            return state, none_of("utilization of a GPU")
        found: dict[str, Mapping[str, Any]] = dict(state)
        verdicts: list[Verdict] = []
        for gpus in by_worker(all_gpus).values():
            used = [gpu for gpu in gpus if _is_used(gpu, found.get(tensor_key(gpu)))]
            means = {tensor_key(gpu): gpu.summary.mean or 0.0 for gpu in used}
            for gpu in used:
                key = tensor_key(gpu)
                peers = [mean for other, mean in means.items() if other != key]
                if not peers or (key not in found and len(found) >= MOST_DEVICES):
                    continue
                apart = means[key] - median(peers)
                before = found.get(key, {})
                found[key] = {
                    "points": before.get("points", 0) + (gpu.summary.size or 0),
                    "apart": [*before.get("apart", ()), round(apart, 2)][-_MINUTES:],
                }
                verdicts += self._judged(gpu, found[key])
        return found, worst_verdict(verdicts) if verdicts else UNDECIDED

    def _judged(self, gpu: Tensor, kept: Mapping[str, Any]) -> list[Verdict]:
        if kept["points"] <= self.patience or len(kept["apart"]) < _MINUTES:
            return []
        least = min(abs(apart) for apart in kept["apart"])
        verdict = HEALTHY
        if least > 100 * self.threshold:
            apart, mean = kept["apart"][-1], gpu.summary.mean or 0.0
            detail = (
                f"{where(gpu)} is {mean:.0f} % utilized, the others of its machine "
                f"{mean - apart:.0f} %, for {_MINUTES} minutes"
            )
            evidence = {"difference": round(abs(apart), 1), "mean_utilization": round(mean, 1)}
            verdict = violation(Reason.IMBALANCED, detail, gpu, **evidence)
        return [measured(verdict, least, 100 * self.threshold, name="least_difference")]


def _is_used(gpu: Tensor, kept: Mapping[str, Any] | None) -> bool:
    return kept is not None or (gpu.summary.max or 0.0) > _USED

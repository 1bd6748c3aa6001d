from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from tocsin.model import Reason, Verdict
from tocsin.rules import MACHINE, Meta, Reads, Rule, State, Step, register
from tocsin.rules._verdicts import HEALTHY, measured, violation
from tocsin.rules.machine._machine import by_worker, highest, known, none_of, system, where


@register
@dataclass(frozen=True)
class GPUNotUsed(Rule):
    """A GPU is idle while another one of the same machine works.

    Fires after ten minutes in a row in which a GPU was never used more than ``idle`` %, and another
    one of its machine more than ``busy`` % on average.

    Parameters
    ----------
    idle: highest utilization in % of a GPU that is not used.
    busy: smallest mean utilization in % of another GPU that is.

    Example: a training on a machine with four GPUs uses the first one only.
    """

    about: ClassVar[str] = MACHINE
    options: ClassVar[dict[str, Any]] = {"for_steps": 10}
    causes: ClassVar[str] = (
        "The script uses one device, or starts fewer processes than there are GPUs."
    )
    advice: ClassVar[str] = (
        "Use every GPU (torchrun --nproc-per-node in PyTorch, keras.distribution.DataParallel in "
        "Keras), or take an instance with fewer GPUs. If others are meant to use it, set "
        "CUDA_VISIBLE_DEVICES."
    )

    idle: Annotated[float, Meta(ge=0, le=100)] = 1.0
    busy: Annotated[float, Meta(gt=0, le=100)] = 20.0

    def reads(self) -> Reads:
        return Reads({"gpu": system("gpu_utilization", fields=("mean", "max"))})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        known_gpus = known(step.tensors["gpu"], "max")
        if not known_gpus:
            return state, none_of("utilization of a GPU")
        lowest = math.inf
        for gpus in by_worker(known_gpus).values():
            idle = [gpu for gpu in gpus if (gpu.summary.max or 0.0) <= self.idle]
            most = highest(gpus) or 0.0
            if most <= self.busy:
                continue
            lowest = min(lowest, *(gpu.summary.max or 0.0 for gpu in gpus))
            if idle:
                names = ", ".join(where(gpu) for gpu in idle[:8])
                are = f"{names} {'is' if len(idle) == 1 else 'are'}"
                detail = f"{are} not used, while another GPU is {most:.0f} % utilized"
                evidence = {"idle_gpus": len(idle), "gpus": len(gpus), "busiest": most}
                found = violation(Reason.IMBALANCED, detail, idle[0], **evidence)
                return state, measured(found, lowest, self.idle, "below", "lowest_utilization")
        return state, measured(HEALTHY, lowest, self.idle, "below")

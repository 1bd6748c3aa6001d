from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from tocsin.model import Reason, Severity, Verdict
from tocsin.rules import MACHINE, Meta, Reads, Rule, State, Step, register
from tocsin.rules._verdicts import HEALTHY, measured, violation
from tocsin.rules.machine._machine import known, none_of, system, where


@register
@dataclass(frozen=True)
class GPUMemoryNearLimit(Rule):
    """The memory of a GPU is almost full.

    Fires when more than ``threshold`` % of a GPU's memory were in use at any time in a minute: the
    next larger batch or longer sequence may fail. The memory in use is that of all processes, and
    includes what a framework has reserved and does not need at present. TensorFlow and JAX reserve
    almost all at the start unless configured otherwise.

    Parameters
    ----------
    threshold: largest share of the memory in use, in %.

    Example: 78 of 80 GiB are in use.
    """

    about: ClassVar[str] = MACHINE
    severity: ClassVar[Severity] = Severity.INFO
    causes: ClassVar[str] = (
        "A batch or sequence that only just fits, tensors that are kept from step to step, or "
        "another process on the same GPU."
    )
    advice: ClassVar[str] = (
        "Leave some percent free: use a smaller batch with gradient accumulation, activation "
        "checkpointing or mixed precision."
    )

    threshold: Annotated[float, Meta(gt=0, lt=100)] = 95.0

    def reads(self) -> Reads:
        return Reads({"memory": system("gpu_memory", fields=("max",))})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        memory = known(step.tensors["memory"], "max")
        if not memory:
            return state, none_of("memory of a GPU")
        fullest = max(memory, key=lambda gpu: gpu.summary.max or 0.0)
        used = fullest.summary.max or 0.0
        if used <= self.threshold:
            return state, measured(HEALTHY, used, self.threshold)
        detail = f"{used:.0f} % of the memory of {where(fullest)} is in use"
        evidence = {"used_percent": used, "threshold": self.threshold}
        found = violation(Reason.ABOVE_THRESHOLD, detail, fullest, **evidence)
        return state, measured(found, used, self.threshold)

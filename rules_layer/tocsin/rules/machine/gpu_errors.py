from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tocsin.model import Reason, Severity, Verdict
from tocsin.rules import MACHINE, Reads, Rule, State, Step, register
from tocsin.rules._verdicts import HEALTHY, violation
from tocsin.rules.machine._machine import known, none_of, system, where

_SAYS = {
    "ECCUncorrectable": "{value:.0f} memory errors that could not be corrected",
    "RowsUncorrectable": "{value:.0f} rows of memory remapped after errors",
    "RowsPending": "rows of memory waiting to be remapped (the GPU must be reset)",
    "XID": "the driver reported XID {value:.0f}",
    "Lost": "it no longer answers",
}


@register
@dataclass(frozen=True)
class GPUErrors(Rule):
    """A GPU reports errors.

    Fires at once when a GPU reports memory errors that could not be corrected, rows of memory that
    wait to be remapped, an error of the driver (XID), or when it no longer answers.

    Example: a GPU falls off the bus (XID 79).
    """

    about: ClassVar[str] = MACHINE
    severity: ClassVar[Severity] = Severity.CRITICAL
    causes: ClassVar[str] = (
        "Usually faulty hardware. XID 13, 31 and 43 can also be caused by a program."
    )
    advice: ClassVar[str] = (
        "Look up the XID in NVIDIA's list, stop the job, and continue on another machine from "
        "the last model checkpoint: results since the error may be wrong."
    )

    def reads(self) -> Reads:
        errors = system("gpu_errors", fields=("max",))
        return Reads({"errors": errors, "gpu": system("gpu_utilization")})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        errors = [tensor for tensor in step.tensors["errors"] if tensor.summary.max]
        if not errors:
            return state, HEALTHY if known(step.tensors["gpu"], "mean") else none_of("GPU")
        worst = errors[-1]  # by name: XID is the last, and says most
        value = worst.summary.max or 0.0
        name = worst.name.partition("/")[2]
        text = _SAYS.get(name, f"{name} {{value:g}}").format(value=value)
        detail = f"{where(worst)}: {text}"
        return state, violation(Reason.BROKEN, detail, worst, **{name: value})

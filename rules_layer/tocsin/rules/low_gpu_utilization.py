from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

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
    measured,
    register,
    violation,
)
from tocsin.rules._machine import STEPS, mean, none_of, samples, system, trained, where

_USED = 1.0  # % that a GPU must reach once in a minute to count as used
_BUSY_SHARE = 0.05  # of the samples


@register
@dataclass(frozen=True)
class LowGPUUtilization(Rule):
    """All GPUs of the training are idle most of the time.

    Fires when over ``minutes`` minutes more than 95 % of the samples are below ``threshold`` %: in
    each minute those of the busiest GPU. So a pause for an evaluation or a checkpoint does not
    fire, nor one idle GPU beside busy ones. Only minutes in which a training step ended count, and
    the first five do not.

    The utilization is the share of time in which any kernel ran. A GPU can be used 100 % by small
    kernels and still do little: from Hopper on the evidence has the share of its multiprocessors
    that were active.

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
        known = [(gpu, found) for gpu in step.tensors["gpu"] if (found := samples(gpu)) is not None]
        if not known:
            return state, none_of("utilization of a GPU")
        used = [(gpu, found) for gpu, found in known if found.max() > _USED]
        if not trained(step) or not used:
            return state, UNDECIDED
        # The busiest GPU of each minute stands for all: fewer alarms, and a state of few numbers.
        counts = [(int((found >= self.threshold).sum()), found.size) for _, found in used]
        minute = max(counts, key=lambda each: each[0] / each[1])
        window = [*state.get("minutes", ()), minute][-self.minutes :]
        state = {"minutes": window}
        if len(window) < self.minutes:
            return state, UNDECIDED
        above, size = (sum(numbers) for numbers in zip(*window, strict=True))
        if above >= _BUSY_SHARE * size:
            return state, measured(HEALTHY, above / size, _BUSY_SHARE, "below")
        fault = self._found([gpu for gpu, _ in used], mean(step.tensors["active"]), above / size)
        return state, measured(fault, above / size, _BUSY_SHARE, "below")

    def _found(self, gpus: Sequence[Tensor], active: float | None, busy: float) -> Verdict:
        average = mean(gpus) or 0.0
        evidence: dict[str, float | int | str] = {
            "mean_utilization": round(average, 1),
            "gpus": len(gpus),
            "busy_share": round(busy, 3),
        }
        if active is not None:
            evidence["multiprocessors_active"] = round(active, 1)
        which = where(gpus[0]) if len(gpus) == 1 else f"all {len(gpus)} GPUs in use"
        detail = (
            f"{which} below {self.threshold:g} % for {self.minutes} minutes; "
            f"{average:.0f} % on average in the last one"
        )
        return violation(Reason.BELOW_THRESHOLD, detail, gpus[0], **evidence)

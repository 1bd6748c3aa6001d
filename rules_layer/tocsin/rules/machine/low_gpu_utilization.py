from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tocsin.model import Reason, Verdict
from tocsin.rules import (
    MACHINE,
    PROFILES,
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
from tocsin.rules.machine._machine import (
    MOST_DEVICES,
    STEPS,
    mean,
    none_of,
    samples,
    system,
    trained,
    where,
)
from tocsin.rules.machine._recent import FEW, Kept, appended, shares

_USED = 1.0  # % that a GPU must reach once in a minute to count as used
_BUSY_SHARE = 0.05  # of the samples


@register
@dataclass(frozen=True)
class LowGPUUtilization(Rule):
    """All GPUs of the training are idle most of the time.

    Fires when over ``minutes`` minutes more than 95 % of the samples of the busiest GPU are below
    ``threshold`` %. Only minutes in which a training step ended count, and the first five do not;
    so pauses for an evaluation or a checkpoint do not fire. A GPU can be 100 % utilized by small
    kernels and still do little: from Hopper on, the evidence has the share of multiprocessors that
    were active.

    With a ``window``, as in profile ``sagemaker``, it is Amazon's rule: over the last ``window``
    samples of each GPU, after more than ``patience``, the 95th percentile is below
    ``threshold_p95``, or the 5th below ``threshold_p5``. Unlike Amazon's, it ignores minutes
    without a training step, and a GPU that was never used beside one that was.

    Parameters
    ----------
    threshold: utilization in % below which a GPU is idle, if ``window`` is 0.
    minutes: number of minutes to judge if ``window`` is 0.
    threshold_p95: least 95th percentile of the utilization in %, with a window.
    threshold_p5: least 5th percentile of the utilization in %, with a window.
    window: number of the latest samples of each GPU to judge; 0 judges minutes.
    patience: number of samples of a GPU before the first verdict; 1000 samples, one per 500 ms,
        take 8 min 20 s.

    Example: for ten minutes both GPUs are 30 % utilized, with a few samples above 50 %.
    """

    about: ClassVar[str] = MACHINE
    profiles: ClassVar[tuple[str, ...]] = PROFILES
    options: ClassVar[dict[str, Any]] = {"grace": 5}
    sagemaker: ClassVar[dict[str, Any]] = {"window": 500}
    causes: ClassVar[str] = (
        "Small batches, much work on the host between kernels, waiting for data (InputBottleneck "
        "reports it), or a machine that is larger than the model needs."
    )
    advice: ClassVar[str] = (
        "Use larger batches, mixed precision and compilation (torch.compile, or jit_compile=True "
        "in Keras), log and synchronize less often, or use a smaller instance."
    )

    threshold: Annotated[float, Meta(gt=0, le=100)] = 50.0
    minutes: Annotated[int, Meta(ge=1, le=60)] = 10
    threshold_p95: Annotated[float, Meta(ge=0, le=100)] = 70.0
    threshold_p5: Annotated[float, Meta(ge=0, le=100)] = 10.0
    window: Annotated[int, Meta(ge=0, le=100_000)] = 0
    patience: Annotated[int, Meta(ge=0)] = 1000

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
        if self.window:
            return self._of_amazon(state, step, known)
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
        return state, measured(fault, above / size, _BUSY_SHARE, "below", "busy_share")

    def _found(self, gpus: Sequence[Tensor], active: float | None, busy: float) -> Verdict:
        average = mean(gpus) or 0.0
        evidence: dict[str, float | int | str] = {
            "mean_utilization": round(average, 1),
            "gpus": len(gpus),
            "busy_share": round(busy, 3),
        }
        if active is not None:
            evidence["multiprocessors_active"] = round(active, 1)
        which = f"{where(gpus[0])} is" if len(gpus) == 1 else f"all {len(gpus)} GPUs in use are"
        detail = (
            f"{which} below {self.threshold:g} % in {self.minutes} consecutive minutes; "
            f"{average:.0f} % on average in the last one"
        )
        return violation(Reason.BELOW_THRESHOLD, detail, gpus[0], **evidence)

    def _of_amazon(
        self, state: State, step: Step, known: Sequence[tuple[Tensor, NDArray[np.float64]]]
    ) -> tuple[State, Verdict]:
        if not trained(step):
            return state, UNDECIDED
        gpus: dict[str, Kept] = {}
        used: set[str] = {*state.get("used", ())}
        for gpu, found in known[:MOST_DEVICES]:
            key = tensor_key(gpu)
            counts = [
                int((found >= self.threshold_p95).sum()),
                int((found < self.threshold_p5).sum()),
            ]
            before = state.get("gpus", {}).get(key, ())
            gpus[key] = appended(before, found.size, counts, self.window)
            used |= {key} if found.max() > _USED else set()
        busy = {gpu.worker for gpu, _ in known if tensor_key(gpu) in used}
        verdicts = [
            self._of_window(gpu, kept)
            for gpu, _ in known[:MOST_DEVICES]
            if (kept := gpus[tensor_key(gpu)])[0] > self.patience
            and (tensor_key(gpu) in used or gpu.worker not in busy)
        ]
        state = {"gpus": gpus, "used": sorted(used & gpus.keys())}
        return state, worst_verdict(verdicts) if verdicts else UNDECIDED

    def _of_window(self, gpu: Tensor, kept: Kept) -> Verdict:
        high, low = shares(kept, 2)
        if high <= FEW:
            detail = f"{where(gpu)} is below {self.threshold_p95:g} % for 95 % of the time"
            fault = violation(Reason.BELOW_THRESHOLD, detail, gpu, busy_share=round(high, 3))
            return measured(fault, high, FEW, "below")
        if low > FEW:
            detail = (
                f"{where(gpu)} fluctuates: {100 * low:.0f} % of the time it is below "
                f"{self.threshold_p5:g} %"
            )
            fault = violation(Reason.BELOW_THRESHOLD, detail, gpu, idle_share=round(low, 3))
            return measured(fault, low, FEW)
        return measured(HEALTHY, low, FEW)

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from tocsin.model import Reason, Verdict
from tocsin.rules import MACHINE, Meta, Reads, Rule, State, Step, Tensor, register
from tocsin.rules._verdicts import HEALTHY, UNDECIDED, measured, violation
from tocsin.rules.machine._machine import (
    MINUTE,
    STEPS,
    by_worker,
    durations,
    highest,
    mean,
    none_of,
    seconds_by_worker,
    system,
    timed,
    total,
    trained,
)

_BUSY = 90.0  # % of a core
_OWN = 50.0  # % of a core that the training must use to be the cause
_WAITING = 50.0  # % of a core's time that it waits for disks


@register
@dataclass(frozen=True)
class InputBottleneck(Rule):
    """The training waits for its data while the GPU is idle.

    Fires when in each of five minutes the training waited for data for more than ``share`` of the
    time, and the mean GPU utilization was below ``gpu`` %; without a GPU the share alone decides.
    ``for batch in hook.data(loader)`` measures the wait. Without it, the wait is the time between
    two steps in which the GPU is idle. Ignores minutes in which no step ended. The finding names
    the likely cause: a core that is always busy, a slow disk, or a loader that is slow to answer or
    has too few workers.

    Parameters
    ----------
    share: largest share of the time that the training may wait, from 0 to 1.
    gpu: smallest mean utilization of the GPUs in %.

    Example: in each minute the training waits 15 seconds for batches, and the GPU is 55 % utilized.
    """

    about: ClassVar[str] = MACHINE
    options: ClassVar[dict[str, Any]] = {"for_steps": 5}
    causes: ClassVar[str] = (
        "Too few loader workers, preprocessing on one core, many small files, or remote storage."
    )
    advice: ClassVar[str] = (
        "Load batches ahead (num_workers, prefetch_factor and pin_memory in PyTorch; in Keras "
        "workers, or prefetch and parallel map of tf.data). Move preprocessing out of the "
        "training or onto the GPU, pack small files into large ones, and copy the data to a local "
        "disk before the first epoch."
    )

    share: Annotated[float, Meta(gt=0, lt=1)] = 0.2
    gpu: Annotated[float, Meta(gt=0, le=100)] = 70.0

    def reads(self) -> Reads:
        return Reads(
            {
                "steps": STEPS,
                "minute": MINUTE,
                "wait": durations("wait"),
                "between": durations("between"),
                "gpu": system("gpu_utilization"),
                "busiest": system("cpu_busiest", "cgroup_cpu"),
                "disk": system("cpu_wait"),
                "own": system("process_cpu"),
                "workers": system("process_workers"),
            }
        )

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        if not timed(step):
            return state, none_of("timed step")
        if not trained(step):
            return state, UNDECIDED
        seconds = seconds_by_worker(step)
        gpus = by_worker(step.tensors["gpu"])
        waits, gaps = by_worker(step.tensors["wait"]), by_worker(step.tensors["between"])
        found = []
        for worker, length in seconds.items():
            used = mean(gpus.get(worker, ()))
            found_waits = waits.get(worker) or (gaps.get(worker, []) if used is not None else [])
            share = total(found_waits) / length
            if found_waits and (used is None or used < self.gpu):
                found.append((share, worker, found_waits[0], used))
        if not found:
            return state, HEALTHY
        share, worker, tensor, used = max(found, key=lambda each: each[0])
        if share <= self.share:
            return state, measured(HEALTHY, share, self.share)
        share = min(share, 1.0)
        return state, measured(self._found(step, worker, tensor, share, used), share, self.share)

    def _found(
        self, step: Step, worker: str, tensor: Tensor, share: float, used: float | None
    ) -> Verdict:
        own = {name: by_worker(found).get(worker, []) for name, found in step.tensors.items()}
        busiest, disk = highest(own["busiest"]), highest(own["disk"])
        evidence: dict[str, float | int | str] = {"wait_share": round(share, 3)}
        if used is not None:
            evidence["gpu_utilization"] = round(used, 1)
        if busiest is not None:
            evidence["busiest_core"] = round(busiest, 1)
        if disk is not None:
            evidence["disk_wait"] = round(disk, 1)
        children = highest(own["workers"], "max")
        if children is not None:
            evidence["child_processes"] = int(children)
        cause = _cause(busiest, highest(own["own"]), disk, children)
        idle = "" if used is None else f", and its GPUs are {used:.0f} % utilized"
        detail = f"{worker} waits for data {100 * share:.0f} % of the time{idle}: {cause}"
        return violation(Reason.ABOVE_THRESHOLD, detail, tensor, **evidence)


def _cause(
    busiest: float | None, own: float | None, disk: float | None, children: float | None
) -> str:
    if disk is not None and disk > _WAITING:
        return f"a core waits for disks {disk:.0f} % of the time (slow storage)"
    if busiest is not None and busiest > _BUSY:
        if own is not None and own < _OWN:
            return f"a core is busy {busiest:.0f} % of the time, with other processes"
        return f"a core is busy {busiest:.0f} % of the time (preprocessing)"
    processes = "" if children is None else f"; the training has {children:.0f} child processes"
    loader = f"a loader slow to answer, or too few loader workers{processes}"
    return loader if busiest is None else f"no core is busy ({loader})"

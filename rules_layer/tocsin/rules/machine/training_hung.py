from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import median
from typing import Annotated, ClassVar

from tocsin.model import Measure, Outcome, Reason, Severity, Verdict
from tocsin.rules import MACHINE, Meta, Reads, Rule, State, Step, register
from tocsin.rules._verdicts import HEALTHY, UNDECIDED, measured, violation
from tocsin.rules.machine._machine import (
    MINUTE,
    OTHER_STEPS,
    STEPS,
    highest,
    mean,
    median_of,
    none_of,
    seconds_by_worker,
    system,
    timed,
)

_MEDIANS = 5  # minutes


@register
@dataclass(frozen=True)
class TrainingHung(Rule):
    """The machine is running, but the training completes no more steps.

    Fires when no step ended for ``minutes`` minutes and for ``ratio`` times the median step, while
    minutes of the machine arrive. Evaluation steps count. Before the first step the rule waits: see
    MaxInitializationTime. It also fires when no minute arrives for ``silence`` seconds and the run
    has not ended: the process was killed, or it holds the interpreter and blocks other threads.

    The finding says what the machine does meanwhile: a GPU that looks busy at low power waits for
    other machines in a collective operation.

    Parameters
    ----------
    minutes: least number of minutes without a step.
    ratio: least time without a step, in median step durations.
    silence: number of seconds without a minute of any machine.

    Example: steps take 2 s, and none has ended for three minutes.
    """

    about: ClassVar[str] = MACHINE
    severity: ClassVar[Severity] = Severity.CRITICAL
    causes: ClassVar[str] = (
        "A worker has crashed while others wait for it in a barrier or an all-reduce; a lock; a "
        "loader worker that died; or storage that does not answer."
    )
    advice: ClassVar[str] = (
        "Take a stack trace of every process (py-spy dump --pid PID, or faulthandler). Look for "
        "the one that waits in another place than the others, and restart from the last model "
        "checkpoint."
    )

    minutes: Annotated[int, Meta(ge=1)] = 3
    ratio: Annotated[float, Meta(ge=0)] = 10.0
    silence: Annotated[float, Meta(gt=0)] = 600.0

    def reads(self) -> Reads:
        return Reads(
            {
                "steps": STEPS,
                "others": OTHER_STEPS,
                "minute": MINUTE,
                "gpu": system("gpu_utilization"),
                "power": system("gpu_power", fields=("mean", "max")),
                "cpu": system("cpu"),
            },
            ticks=True,
        )

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        if step.tick:
            return state, self._silent(state, step.time)
        if not timed(step):
            return state, none_of("timed step")
        state = {**state, "at": step.time}
        medians = [m for tensor in step.tensors["steps"] if (m := median_of(tensor)) is not None]
        if medians or any(tensor.summary.size for tensor in step.tensors["others"]):
            usual = [*state.get("medians", ()), *([median(medians)] if medians else [])]
            known = {"medians": usual[-_MEDIANS:], "idle": [0, 0.0]}
            return {**state, **known, "power": highest(step.tensors["power"])}, measured(
                HEALTHY, 0, self.minutes
            )
        if "idle" not in state:
            return state, UNDECIDED  # before the first step
        minutes, seconds = state["idle"]
        longest = max(seconds_by_worker(step).values(), default=0.0)
        minutes, seconds = minutes + 1, round(seconds + longest, 3)
        state = {**state, "idle": [minutes, seconds]}
        usual_step = median(state["medians"]) if state.get("medians") else 0.0
        both = (Measure(minutes, self.minutes), Measure(seconds, self.ratio * usual_step))
        decisive = min(both, key=lambda measure: measure.excess)
        if minutes < self.minutes or seconds < self.ratio * usual_step:
            return state, replace(UNDECIDED, measure=decisive)
        found = self._found(state, step, seconds, usual_step)
        name = "minutes_without_step" if decisive is both[0] else "seconds_without_step"
        return state, measured(found, decisive.value, decisive.limit, name=name)

    def _found(self, state: State, step: Step, seconds: float, usual: float) -> Verdict:
        evidence: dict[str, float | int | str] = {
            "seconds_without_step": seconds,
            "median_step": usual,
        }
        gpu, power, cpu = (mean(step.tensors[name]) for name in ("gpu", "power", "cpu"))
        if gpu is not None:
            evidence["gpu_utilization"] = gpu
        if power is not None:
            evidence["gpu_power"] = power
        if cpu is not None:
            evidence["cpu"] = cpu
        meanwhile = _meanwhile(evidence, state)
        detail = f"no step for {seconds:.0f} s; a step usually takes {usual:.3g} s; {meanwhile}"
        return violation(Reason.LATE, detail, step.tensors["steps"][0], **evidence)

    def _silent(self, state: State, now: float) -> Verdict:
        at = state.get("at")
        if at is None or now - at <= self.silence or not state.get("medians"):
            return UNDECIDED
        detail = f"no data from the machine for {now - at:.0f} s, and the run has not ended"
        found = Verdict(
            Outcome.VIOLATION, Reason.LATE, detail, evidence={"seconds_silent": now - at}
        )
        return measured(found, now - at, self.silence)


def _meanwhile(evidence: Mapping[str, float | int | str], state: State) -> str:
    """Describe what the machine does while no step ends."""
    gpu, power, before = evidence.get("gpu_utilization"), evidence.get("gpu_power"), state["power"]
    if gpu is not None and float(gpu) > 90 and power is not None and before:
        if float(power) < 0.6 * before:
            return "its GPUs look busy at low power: they wait in a collective operation"
        return "its GPUs compute"
    cpu = float(evidence.get("cpu", 0.0))
    idle = "its GPUs are idle, " if gpu is not None else ""
    return f"{idle}its processors are {cpu:.0f} % utilized"

"""Minutes of machines as steps of a rule, made by what the hook writes them with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from tocsin.model import Mode, Role, Verdict
from tocsin.rules import Rule, Step, Tensor
from tocsin.tensors import Captured
from tocsin_hooks.machine import Minute, entries

from .judging import judged

TICKS = 120


def flat(value: float, ticks: int = TICKS) -> list[float]:
    return [value] * ticks


def minute(
    *,
    steps: Sequence[float] | None = (0.5,) * 100,
    wait: Sequence[float] = (),
    forward: Sequence[float] = (),
    evaluation: Sequence[float] = (),
    seconds: float = 60.0,
    **series: float | Sequence[float],
) -> Minute:
    """One minute. Series are named with ``__`` for ``/``; a number stands for all ticks."""
    known = {
        name.replace("__", "/"): flat(value) if isinstance(value, float | int) else value
        for name, value in series.items()
    }
    durations: dict[str, Sequence[float]] = {}
    if steps is not None:
        durations = {"TRAIN": steps, "wait": wait, "forward": forward, "EVAL": evaluation}
    return Minute(seconds, known, durations)


def history(rule: Rule, minutes: Iterable[Minute | dict[str, Minute]]) -> list[Step]:
    """The steps that a rule gets of minutes: of one machine, or of several by name."""
    steps = []
    for number, each in enumerate(minutes):
        nodes = each if isinstance(each, dict) else {"node_0": each}
        tensors = [_tensor(t, worker) for worker, own in nodes.items() for t in entries(own)]
        selected = {
            name: tuple(t for t in tensors if t.role in read.roles and t.kind in read.kinds)
            for name, read in rule.reads().tensors.items()
        }
        steps.append(Step(number, Mode.GLOBAL, number, 60.0 * number, selected))
    return steps


def verdicts(rule: Rule, minutes: Iterable[Minute | dict[str, Minute]]) -> list[Verdict]:
    return judged(rule, history(rule, minutes))


def fires(
    rule: Rule, minutes: Iterable[Minute | dict[str, Minute]], options: dict[str, Any] | None = None
) -> bool:
    """Whether the rule fires, with its ``for_steps`` and ``grace`` as the engine counts them."""
    used = {**rule.options, **(options or {})}
    streak = 0
    for number, verdict in enumerate(verdicts(rule, minutes)):
        if verdict.outcome.value == "healthy":
            streak = 0
        if verdict.violation and number >= used.get("grace", 0):
            streak += 1
            if streak >= used.get("for_steps", 1):
                return True
    return False


def tick(after: Step, seconds: float) -> Step:
    return replace(after, tick=True, tensors={}, time=after.time + seconds)


def _tensor(captured: Captured, worker: str) -> Tensor:
    assert captured.summary is not None
    role = Role(captured.role) if captured.role else None
    return Tensor(
        captured.name,
        worker,
        captured.summary,
        captured.shape,
        captured.dtype,
        role,
        captured.kind,
        captured.inline,
    )

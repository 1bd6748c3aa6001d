"""``tocsin check`` and Lambda come to the same, whatever the run has been through."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tocsin.model import Reason, Role, Verdict
from tocsin.rules import HEALTHY, Read, Reads, Rule, Step, Tensor, violation

from tests.faults.room import BAD, START, Room, add_rule

VANISHING = {"rules": [{"rule": "VanishingGradient", "for_steps": 1}]}


def test_after_a_restart(tmp_path: Path) -> None:
    room = Room(tmp_path, VANISHING, now=START + 1000)
    job = room.job()
    for step in range(8):
        gradient = BAD if step == 1 else 1e-2
        key = job.save(step, previous=step - 1 if step else None, gradient=gradient)
        room.look(job, key)
    job.run_id = "run-2"
    for step in range(4, 12):
        previous = step - 1 if step > 4 else None
        room.look(job, job.save_at(START + 100 + step, step, previous))
    job.end_at(START + 120)
    room.look(job)
    assert room.known(job).ended == "marker"
    assert room.known(job).rules == room.checked(job).rules


def test_after_hours_of_silence(tmp_path: Path) -> None:
    stalled = {"rule": "StalledTrainingRule", "parameters": {"threshold": 600}}
    room = Room(tmp_path, {"rules": [stalled]}, now=START + 20)
    job = room.job()
    job.steps(10)
    room.look(job)
    room.pass_time(3 * 3600)
    job.end_at(room.clock.now, by_hook=False)
    room.wait(60)
    room.look(job)
    assert room.known(job).statuses == {"StalledTrainingRule": "IssuesFound"}
    assert room.checked(job).statuses == room.known(job).statuses


def test_with_a_marker_after_a_day_of_silence(tmp_path: Path) -> None:
    room = Room(tmp_path, VANISHING, now=START + 10)
    job = room.job()
    job.steps(3)
    room.look(job)
    room.wait(25 * 3600)
    room.look(job, tick=room.clock.now)
    assert room.known(job).ended == "silence"
    job.end_at(room.clock.now + 10)
    room.wait(20)
    room.look(job)
    assert (room.known(job).ended, room.checked(job).ended) == ("marker", "marker")
    assert room.known(job).statuses == room.checked(job).statuses


def test_at_the_present_time(tmp_path: Path) -> None:
    stalled = {"rule": "StalledTrainingRule", "parameters": {"threshold": 600}}
    room = Room(tmp_path, {"rules": [stalled]}, now=START + 20)
    job = room.job()
    job.steps(10)
    room.look(job)
    assert room.checked(job, tick=True).statuses == {"StalledTrainingRule": "InProgress"}
    room.pass_time(3 * 3600)
    assert room.known(job).statuses == {"StalledTrainingRule": "IssuesFound"}
    assert room.checked(job, tick=True).statuses == room.known(job).statuses
    assert room.checked(job).statuses == {"StalledTrainingRule": "InProgress"}


def _number(loss: Tensor) -> float:
    return float(np.ravel(loss.value)[0])


@dataclass(frozen=True)
class BestLoss(Rule):
    """The loss is far above the best one, which is infinite before the first."""

    def reads(self) -> Reads:
        return Reads({"losses": Read(roles=(Role.LOSS,), fields=("mean",), values=True)})

    def evaluate(self, state: Mapping[str, Any], step: Step) -> tuple[Mapping[str, Any], Verdict]:
        (loss,) = step.tensors["losses"]
        now, best = _number(loss), state.get("best", math.inf)
        if math.isfinite(now):
            best = min(best, now)
        bad = now > 1.5 * best
        return {"best": best}, violation(Reason.ABOVE_THRESHOLD, "", loss) if bad else HEALTHY


@dataclass(frozen=True)
class LossOfEpoch(Rule):
    """The loss of an epoch is remembered by the epoch's number."""

    def reads(self) -> Reads:
        return Reads({"losses": Read(roles=(Role.LOSS,), fields=("mean",), values=True)})

    def evaluate(self, state: Mapping[str, Any], step: Step) -> tuple[Mapping[str, Any], Verdict]:
        (loss,) = step.tensors["losses"]
        epochs = {**state.get("epochs", {}), step.step // 2: _number(loss)}
        many = len(epochs) > 5
        return {"epochs": epochs}, violation(Reason.LATE, "", loss) if many else HEALTHY


@pytest.mark.parametrize(("rule", "key"), [(BestLoss, "best"), (LossOfEpoch, "epochs")])
def test_about_a_state_that_json_cannot_keep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: type[Rule], key: str
) -> None:
    add_rule(monkeypatch, rule)
    room = Room(tmp_path, {"rules": [rule.__name__]}, now=START + 1000)
    job = room.job()
    for step in range(8):
        job.save(step, previous=step - 1 if step else None, loss=math.inf if step == 0 else 1.0)
        room.look(job)
    job.end_at(START + 10)
    room.look(job)
    (known,), (checked,) = room.known(job).rules.values(), room.checked(job).rules.values()
    assert known == checked
    assert known.status == "Error"
    assert key in known.details

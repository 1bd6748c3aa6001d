"""What is remembered of a run can be read again, however much the run has to say."""

from __future__ import annotations

import random
import string
from pathlib import Path

import pytest

from tests.faults.room import START, Act, Crash, Room, alert, limit_checkpoints, limit_groups

RULES = {"rules": ["FrozenParameters", "VanishingGradient"]}


def test_a_checkpoint_that_was_written_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_checkpoints(monkeypatch, 1 << 18)
    room = Room(tmp_path, RULES, now=START + 100)
    job = room.job()
    fields = {"entry": {"role": "weight"}, "l2": 1.0, "update_l2": 0.1}
    for step in range(8):  # 80 kB of names at each step, of tensors that are not seen again
        names = [f"{step}.{number}." + "n" * 3_950 for number in range(20)]
        job.write_index(step, step - 1 if step else None, names, **fields)
        assert room.tried(job) == ""
    assert room.known(job).steps == 8


def test_a_run_whose_checkpoint_cannot_be_read_is_evaluated_again(tmp_path: Path) -> None:
    room = Room(tmp_path, RULES, now=START + 100)
    job = room.job()
    job.steps(3)
    room.look(job)
    room.spoil_checkpoint(job)
    job.save(3, previous=2)
    assert room.tried(job) == ""
    assert room.known(job).steps == 4


def test_a_run_with_many_actions_is_stopped_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(0)

    def word(length: int) -> str:
        return "".join(chance.choices(string.ascii_letters + string.digits, k=length))

    limit_groups(monkeypatch, 70_000)
    act = Act.on_a_table()
    alerts = [
        alert(
            f"rule-{number}",
            Sequence=number + 1,
            Severity="critical",
            Actions=[*(f"metric:{word(250)}" for _ in range(19)), "stop"],
        )
        for number in range(20)
    ]
    act.know(*alerts)
    act.cut_off_after("stop")
    failed = ""
    try:
        act.react(alerts[0])
    except Crash:
        pass
    except ValueError as error:
        failed = str(error)
    assert (failed, act.stopped) == ("", ["j1"])

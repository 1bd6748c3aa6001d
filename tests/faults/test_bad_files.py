"""An index file that says that its worker has uploaded later steps before."""

from __future__ import annotations

from pathlib import Path

import pytest
from tocsin.tensors import BadIndex, decode_index

from tests.faults.room import START, Room

VANISHING = {"rules": ["VanishingGradient"]}
IMPOSSIBLE = [3, 4, 10**15]


@pytest.mark.parametrize("previous", IMPOSSIBLE)
def test_a_previous_step_that_is_no_earlier_one_is_refused(tmp_path: Path, previous: int) -> None:
    job = Room(tmp_path, VANISHING).job()
    data = job.storage.read(job.write_index(3, previous))
    reason = ""
    try:
        decode_index(data, 3, "worker_0")
    except BadIndex as error:
        reason = str(error)
    assert "prev_step" in reason


@pytest.mark.parametrize("ended", [False, True], ids=["going on", "ended"])
@pytest.mark.parametrize("previous", IMPOSSIBLE)
def test_it_harms_no_other_step(tmp_path: Path, previous: int, ended: bool) -> None:
    room = Room(tmp_path, VANISHING, now=START + 100)
    job = room.job()
    job.steps(3)
    job.write_index(3, previous)
    if ended:
        job.end_at(START + 4)
    assert room.tried(job) == ""
    room.wait(70)
    job.save_at(START + 150, 4, 2)
    job.end_at(START + 151)
    assert room.tried(job) == ""
    known = room.known(job)
    assert (known.steps, known.last_step, known.frontier) == (4, 4, 4)
    assert (known.refused_files, known.ended) == (1, "marker")

"""Index files with numbers that cannot be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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


BAD_NUMBERS = [{"nan": 10**30}, {"size": -1}, {"variance": -1.0}, {"quantiles": {"x": 1.0}}]


@pytest.mark.parametrize("numbers", BAD_NUMBERS)
def test_numbers_that_no_tensor_has_are_refused_and_the_other_tensors_judged(
    tmp_path: Path, numbers: dict[str, Any]
) -> None:
    room = Room(tmp_path, {"rules": [{"rule": "VanishingGradient", "for_steps": 1}]})
    job = room.job()
    document = json.loads(job.storage.read(job.write_index(0, None, ("gradient/a", "gradient/b"))))
    first, second = document["shape_payload"]
    first["summary"] |= {"abs_mean": 1e-12, **numbers}
    second["summary"] |= {"abs_mean": 1e-11}
    key = job.save_at(START, 0, None)
    job.storage.write(key, json.dumps(document).encode())
    room.wait(10)
    room.look(job)
    known = room.known(job)
    assert (known.steps, known.refused_files) == (1, 0)
    assert "gradient/b" in known.rules["VanishingGradient"].details
    assert room.world.checkpoints.load(job.url).checkpoint.unreadable == 1

"""What a run costs does not grow with its history, nor with its workers where it need not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tocsin.tensors import Object, index_key, index_objects

from tests.faults.cost import (
    SAVES_A_DAY,
    counts,
    dollars,
    machine_day,
    minute_calls,
    moves_due_at,
    steady_calls,
)
from tests.faults.room import (
    BAD,
    START,
    Act,
    Calls,
    DeployedRuns,
    Room,
    aws_in_process,
    calls_of_aws,
)


@pytest.fixture(scope="module")
def steady() -> Mapping[int, Calls]:
    """The deployment's calls for the fourth save of a healthy run, by its number of workers; each
    of them has a notification of its own.
    """
    with aws_in_process():
        runs = DeployedRuns({"rules": ["VanishingGradient"]})
        return {workers: steady_calls(runs, workers) for workers in (1, 4)}


def test_the_calls_of_a_quiet_job_cost_at_most_eleven_cents_a_day(
    steady: Mapping[int, Calls],
) -> None:
    """With Lambda's time, its logs and the queue's requests that makes 15 cents."""
    assert sum(dollars(steady[1]).values()) * SAVES_A_DAY <= 0.11


def test_the_machines_of_a_job_cost_cents_a_day() -> None:
    """Three for one machine; for eight of them the files count most."""
    with aws_in_process():
        runs = DeployedRuns({})
        days = {
            nodes: sum(machine_day(minute_calls(runs, nodes, together=True), nodes, 1).values())
            for nodes in (1, 8)
        }
    assert days[1] <= 0.035
    assert days[8] <= 0.095


def test_a_look_is_two_updates(steady: Mapping[int, Calls]) -> None:
    assert counts(steady[1])["dynamodb.UpdateItem"] <= 2


def test_a_save_after_another_does_not_move_what_is_due(steady: Mapping[int, Calls]) -> None:
    assert moves_due_at(steady[1]) == 0


def test_what_does_not_change_is_not_read_again(steady: Mapping[int, Calls]) -> None:
    calls = steady[4]
    listed = [parameters.get("Prefix", "") for name, parameters in calls if "List" in name]
    fetched = [parameters.get("Key", "") for name, parameters in calls if name == "s3.GetObject"]
    assert [prefix for prefix in listed if "collections/" in prefix] == []
    assert [key for key in fetched if "collections/" in key or key.endswith("watch.json")] == []


def test_the_files_of_many_workers_are_read_once_a_save() -> None:
    workers = 5
    with aws_in_process():
        runs = DeployedRuns({"rules": ["VanishingGradient"]})
        job = runs.job("jobs/of-many", workers)
        runs.save(job, 0)
        runs.notify(job, 0)
        with calls_of_aws() as calls:
            for worker in range(workers):  # each is heard of before the next one saves
                runs.save(job, 1, worker)
                runs.notify(job, 1, worker)
        assert runs.known(job).steps == 2
    fetched = [parameters.get("Key", "") for name, parameters in calls if "GetObject" in name]
    assert len([key for key in fetched if "/index/" in key]) == workers


def test_what_one_commit_says_is_read_once(tmp_path: Path) -> None:
    rules = [
        {
            "rule": "VanishingGradient",
            "name": f"rule-{number}",
            "for_steps": 1,
            "severity": "critical",
            "actions": ["email"],
        }
        for number in range(20)
    ]
    room = Room(tmp_path, {"rules": rules}, now=START + 10)
    job = room.job()
    job.save(0, previous=None, gradient=BAD)
    room.look(job)
    assert set(room.known(job).statuses.values()) == {"IssuesFound"}
    act = Act()
    room.deliver(act)
    assert act.stopped == []
    assert act.texts
    assert act.checkpoint_reads <= 1


class Listed:
    """A run's files; ``count`` is how many of them were listed."""

    def __init__(self, keys: list[str]) -> None:
        self._keys = sorted(keys)
        self.count = 0

    def list(self, prefix: str, after: str = "") -> Iterator[Object]:
        for key in self._keys:
            if key.startswith(prefix) and key > after:
                self.count += 1
                yield Object(key, 1, 0.0)


@pytest.mark.parametrize("first", [0, 10**10, 2 * 10**11, 2 * 10**12])
def test_a_look_lists_what_is_new(first: int) -> None:
    saves = 2000
    steps = [first + 1000 * number for number in range(saves)]
    storage: Any = Listed([index_key(step, "worker_0") for step in steps])
    found = list(index_objects(storage, after=steps[-3], longer=False))
    assert [item.key for item in found] == [index_key(step, "worker_0") for step in steps[-2:]]
    assert storage.count <= 10


@pytest.mark.parametrize("lost", [False, True])
def test_a_step_of_more_digits_is_found(tmp_path: Path, lost: bool) -> None:
    """Its files sort before those of shorter ones; a tick finds them, if nothing else does."""
    room = Room(tmp_path, {"rules": ["VanishingGradient"]}, now=START + 10)
    job = room.job()
    first, second, third = 9 * 10**11, 10**12, 10**12 + 10**9
    room.look(job, job.save_at(START, first, None))
    keys = [job.save_at(START + 1, second, first), job.save_at(START + 2, third, second)]
    room.look(job, *(() if lost else keys))
    assert room.known(job).frontier == (first if lost else third)
    room.pass_time(360)
    assert (room.known(job).frontier, room.known(job).steps) == (third, 3)

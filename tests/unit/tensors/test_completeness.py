from __future__ import annotations

import pytest
from tocsin.model import Mode
from tocsin.tensors import IndexFile, RunMeta, complete_steps

START = "start"


def _steps(table):
    """``{step: {worker: previous step}}``; None for a file of smdebug, "bad" for a damaged one."""

    def index(step, worker, previous):
        if previous == "bad":
            return None
        meta = None
        if previous is not None:
            meta = RunMeta("run", None if previous == START else previous)
        return IndexFile(step, worker, Mode.TRAIN, step, None, meta, ())

    return {
        step: {worker: index(step, worker, previous) for worker, previous in present.items()}
        for step, present in table.items()
    }


@pytest.mark.parametrize(
    ("table", "workers", "complete"),
    [
        ({}, 1, []),
        ({5: {"a": None}, 0: {"a": None}}, 1, [0, 5]),
        ({0: {"a": None}}, 2, []),
        # a later step of all workers closes the earlier ones
        ({0: {"a": None}, 5: {"a": None, "b": None}, 9: {"b": None}}, 2, [0, 5]),
        ({0: {"a": None, "b": None}, 5: {"a": None}}, 2, [0]),
        # a damaged file is there all the same
        ({0: {"a": "bad", "b": None}}, 2, [0]),
        # workers that save different steps, and say so
        (
            {0: {"a": START, "b": START}, 5: {"b": 0}, 10: {"a": 0}, 15: {"b": 5}},
            2,
            [0, 5, 10],
        ),
        # b says there is a step 5 of its own that cannot be seen yet
        ({5: {"a": START}, 10: {"b": 5}}, 2, []),
        ({4: {"a": START}, 10: {"b": 5}}, 2, []),
        # the first step of a restarted worker
        ({0: {"a": START}, 4: {"b": START}}, 2, [0]),
        # one of three is still missing
        ({0: {"a": START}, 4: {"b": START}}, 3, []),
    ],
)
def test_complete_steps(table, workers, complete):
    assert complete_steps(_steps(table), workers, finished=False) == complete
    assert complete_steps(_steps(table), workers, finished=True) == sorted(table)

"""Which steps are complete."""

from __future__ import annotations

import pytest
from tocsin.model import Mode
from tocsin.tensors import Entry, IndexFile, RunMeta
from tocsin.trial import StepState
from tocsin.trial.catalog import Catalog

BAD = "cannot be read"


def _catalog(saved, *, workers=2, window=1000, finished=False):
    """``saved`` is (step, worker) or (step, worker, previous step) or (step, worker, BAD)."""
    catalog = Catalog(window)
    for step, worker, *previous in saved:
        meta = RunMeta("r", previous[0]) if previous else None
        entries = (Entry("loss", 0, 10),)
        index = IndexFile(step, f"w{worker}", Mode.TRAIN, step, "e", meta, entries)
        catalog.add(step, f"w{worker}", None if previous == [BAD] else index)
    catalog.settle(workers, finished=finished)
    return catalog


@pytest.mark.parametrize(
    ("saved", "options", "complete", "last"),
    [
        ([], {}, [], -1),
        ([(0, 0)], {}, [], -1),
        ([(0, 0), (0, 1)], {}, [0], 0),
        ([(0, 0)], {"workers": 1}, [0], 0),
        ([(0, 0)], {"workers": None}, [], -1),
        ([(0, 0), (10, 0), (10, 1), (20, 1)], {}, [0, 10], 10),  # a later step closes
        ([(0, 0), (10, 0), (20, 1)], {"finished": True}, [0, 10, 20], 20),
        ([(0, 0), (0, 1), (10, 0), (10, 1, BAD), (20, 0)], {}, [0, 10], 10),  # damage counts
        ([(0, 0, BAD), (0, 1, BAD)], {}, [], 0),
        ([(0, 0, None), (10, 0, 0), (20, 1, None)], {}, [0, 10], -1),  # w1 had none before 20
        ([(0, 0, None), (10, 0, 0), (20, 1, 5)], {}, [10], -1),
        ([(0, 0)] + [(s, 0) for s in range(1, 8)], {"window": 8}, [], -1),
        ([(s, 0) for s in range(9)], {"window": 8}, [0, 1, 2, 3, 4], 4),
        ([(s, 0) for s in range(9)], {"window": 0}, list(range(9)), 8),
        ([(s, 0) for s in range(9)], {"window": 8, "workers": None}, [], -1),
    ],
)
def test_complete_steps(saved, options, complete, last):
    catalog = _catalog(saved, **options)
    assert catalog.complete_steps() == complete
    assert catalog.complete_steps(Mode.TRAIN) == complete
    assert catalog.last_complete == last
    assert catalog.complete_steps(Mode.EVAL) == []


@pytest.mark.parametrize(
    ("step", "running", "ended"),
    [
        (-1, StepState.UNAVAILABLE, StepState.UNAVAILABLE),
        (0, StepState.AVAILABLE, StepState.AVAILABLE),
        (5, StepState.UNAVAILABLE, StepState.UNAVAILABLE),
        (10, StepState.AVAILABLE, StepState.AVAILABLE),
        (11, StepState.NOT_YET_AVAILABLE, StepState.UNAVAILABLE),
        (20, StepState.NOT_YET_AVAILABLE, StepState.AVAILABLE),
        (21, StepState.NOT_YET_AVAILABLE, StepState.UNAVAILABLE),
    ],
)
@pytest.mark.parametrize("mode", [Mode.GLOBAL, Mode.TRAIN])
def test_states(step, running, ended, mode):
    saved = [(0, 0), (10, 0), (10, 1), (20, 1)]
    assert _catalog(saved).state(step, mode) is running
    assert _catalog(saved, finished=True).state(step, mode) is ended
    assert _catalog(saved).state(step, Mode.EVAL) is StepState.NOT_YET_AVAILABLE
    assert _catalog(saved, finished=True).state(step, Mode.EVAL) is StepState.UNAVAILABLE


def test_the_number_of_workers_may_be_known_later():
    catalog = _catalog([(0, 0), (0, 1), (10, 0)], workers=None)
    catalog.settle(2, finished=False)
    assert catalog.complete_steps() == [0]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_workers_come_in_the_order_of_their_names(order):
    catalog = _catalog([(0, worker) for worker in order], workers=3)
    assert [file.worker for file in catalog.files(0)] == ["w0", "w1", "w2"]
    assert catalog.workers == {"w0", "w1", "w2"}


def test_a_file_that_gets_damaged_keeps_its_place():
    catalog = _catalog([(0, 0), (0, 0, BAD)])
    assert [file.worker for file in catalog.files(0)] == ["w0"]
    assert catalog.complete_steps() == []
    repaired = _catalog([(0, 0, BAD), (0, 0)])
    assert repaired.complete_steps() == []

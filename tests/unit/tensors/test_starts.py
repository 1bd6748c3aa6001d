"""A job that was started several times into one run: what of it counts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tocsin.model import Mode
from tocsin.tensors import IndexFile, RunMeta, first_of_start, starts_of

Files = dict[tuple[int, str], IndexFile]


@dataclass(frozen=True)
class Start:
    """A start of the job that saves every ``every`` steps, up to and including ``last``."""

    run_id: str
    last: int
    resumed: int | None = None
    every: int = 10
    workers: tuple[str, ...] = ("w0",)
    own_ids: bool = False
    first: int = 0
    began: float | None = None

    @property
    def steps(self) -> list[int]:
        begin = self.first if self.resumed is None else self.resumed + 1
        return [step for step in range(begin, self.last + 1) if step % self.every == 0]

    def write(self, files: Files) -> None:
        for worker in self.workers:
            run_id = f"{self.run_id}-{worker}" if self.own_ids else self.run_id
            for before, step in pairwise([None, *self.steps]):
                meta = RunMeta(run_id, before, self.resumed, started=self.began)
                files[step, worker] = IndexFile(step, worker, Mode.TRAIN, step, None, meta, ())


def written(*starts: Start, missing=()) -> Files:
    files: Files = {}
    for start in starts:
        start.write(files)
    return {place: file for place, file in files.items() if place[0] not in missing}


def kept(files) -> dict[str, list[int]]:
    """Of each start the steps that count."""
    found = starts_of(files.values())
    steps: dict[str, set[int]] = {}
    for file in files.values():
        if found.keeps(file):
            steps.setdefault(file.meta.run_id, set()).add(file.step)
    return {run_id: sorted(own) for run_id, own in steps.items()}


def steps(first, last, every=10):
    return list(range(first, last + 1, every))


BOTH = ("w0", "w1")

CASES = {
    "one start": ([Start("a", 50)], {"a": steps(0, 50)}),
    "a shorter second start": ([Start("a", 100), Start("b", 50)], {"b": steps(0, 50)}),
    "a longer second start": ([Start("a", 50), Start("b", 100)], {"b": steps(0, 100)}),
    "an equal second start": ([Start("a", 50), Start("b", 50)], {"b": steps(0, 50)}),
    "one step of a second start": ([Start("a", 100), Start("b", 0)], {"b": [0]}),
    "other steps, none in common but the first": (
        [Start("a", 100), Start("b", 50, every=7)],
        {"b": steps(0, 49, 7)},
    ),
    "a finer interval": ([Start("a", 100), Start("b", 30, every=1)], {"b": steps(0, 30, 1)}),
    "a coarser interval": ([Start("a", 100, every=1), Start("b", 60)], {"b": steps(0, 60)}),
    "nothing in common, told by the time": (
        [Start("a", 60, first=5, began=1.0), Start("b", 40, every=7, began=2.0)],
        {"b": steps(0, 35, 7)},
    ),
    "nothing in common, told by the time, the other way": (
        [Start("a", 60, every=7, began=1.0), Start("b", 60, first=5, began=2.0)],
        {"b": steps(10, 60)},
    ),
    "resumed where the first one ended": (
        [Start("a", 50), Start("b", 80, resumed=50)],
        {"a": steps(0, 50), "b": steps(60, 80)},
    ),
    "resumed between two saves": (
        [Start("a", 55), Start("b", 80, resumed=55)],
        {"a": steps(0, 50), "b": steps(60, 80)},
    ),
    "resumed before the end of the first one": (
        [Start("a", 100), Start("b", 80, resumed=50)],
        {"a": steps(0, 50), "b": steps(60, 80)},
    ),
    "resumed, with a finer interval": (
        [Start("a", 100), Start("b", 60, resumed=50, every=1)],
        {"a": steps(0, 50), "b": steps(51, 60, 1)},
    ),
    "resumed, with a coarser interval": (
        [Start("a", 100, every=1), Start("b", 80, resumed=54)],
        {"a": steps(0, 59, 1), "b": steps(60, 80)},
    ),
    "resumed, with no step in common": (
        [Start("a", 100), Start("b", 90, resumed=50, every=7)],
        {"a": steps(0, 50), "b": steps(56, 84, 7)},
    ),
    "resumed twice": (
        [Start("a", 100), Start("b", 80, resumed=50), Start("c", 70, resumed=60)],
        {"a": steps(0, 50), "b": [60], "c": [70]},
    ),
    "resumed twice at the same step": (
        [Start("a", 100), Start("b", 90, resumed=50), Start("c", 70, resumed=50)],
        {"a": steps(0, 50), "c": [60, 70]},
    ),
    "resumed further back the second time": (
        [Start("a", 100), Start("b", 90, resumed=70), Start("c", 50, resumed=30)],
        {"a": steps(0, 30), "c": [40, 50]},
    ),
    "from the beginning, after one that resumed": (
        [Start("a", 100), Start("b", 80, resumed=50), Start("c", 20)],
        {"c": [0, 10, 20]},
    ),
    "from the beginning, after two that resumed": (
        [Start("a", 100), Start("b", 80, resumed=50), Start("c", 95, resumed=80), Start("d", 20)],
        {"d": [0, 10, 20]},
    ),
    "from the beginning, up to where another one resumed": (
        [Start("a", 50, began=1.0), Start("b", 80, resumed=50, began=2.0),
         Start("c", 50, began=3.0)],
        {"c": steps(0, 50)},
    ),
    "from the beginning, then the checkpoint before that": (
        [Start("a", 50, began=1.0), Start("b", 20, began=2.0),
         Start("c", 80, resumed=50, began=3.0)],
        {"b": [0, 10, 20], "c": [60, 70, 80]},
    ),
    "three times from the beginning, each shorter": (
        [Start("a", 100), Start("b", 60), Start("c", 30)],
        {"c": steps(0, 30)},
    ),
    "three times from the beginning, the middle one short": (
        [Start("a", 100), Start("b", 20), Start("c", 60)],
        {"c": steps(0, 60)},
    ),
    "what files tell goes before clocks that may be wrong": (
        [Start("a", 100, began=9.0), Start("b", 50, began=2.0)],
        {"b": steps(0, 50)},
    ),
    "the beginning of an older start, copied over a later one": (
        [Start("b", 100, began=9000.0), Start("a", 50, began=2.0)],
        {"b": steps(60, 100)},
    ),
    "an older start, copied over a later one that resumed": (
        [Start("b", 100, resumed=50, began=9000.0), Start("a", 70, began=2.0)],
        {"a": steps(0, 70), "b": [80, 90, 100]},
    ),
    "a start of unknown age, written over a later one": (
        [Start("a", 100, began=9000.0), Start("b", 50)],
        {"b": steps(0, 50)},
    ),
    "all workers alike": (
        [Start("a", 100, workers=BOTH), Start("b", 50, workers=BOTH)],
        {"b": steps(0, 50)},
    ),
    "a worker that has not written yet": (
        [Start("a", 100, workers=BOTH), Start("b", 50)],
        {"b": steps(0, 50)},
    ),
    "fewer workers, resumed": (
        [Start("a", 100, workers=BOTH), Start("b", 70, resumed=50)],
        {"a": steps(0, 50), "b": [60, 70]},
    ),
    "workers with ids of their own": (
        [Start("a", 100, workers=BOTH, own_ids=True), Start("b", 50, workers=BOTH, own_ids=True)],
        {"b-w0": steps(0, 50), "b-w1": steps(0, 50)},
    ),
    "workers with ids of their own, one start": (
        [Start("a", 50, workers=BOTH, own_ids=True)],
        {"a-w0": steps(0, 50), "a-w1": steps(0, 50)},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("starts", "expected"), CASES.values(), ids=CASES.keys())
def test_what_counts(starts, expected):
    assert kept(written(*starts)) == expected


@pytest.mark.parametrize(
    ("starts", "missing", "expected"),
    [
        ([Start("a", 100), Start("b", 50)], {0}, {"b": steps(10, 50)}),
        ([Start("a", 100), Start("b", 50)], {20, 30}, {"b": [0, 10, 40, 50]}),
        ([Start("a", 100), Start("b", 50)], {60, 70}, {"b": steps(0, 50)}),
        (
            [Start("a", 100), Start("b", 80, resumed=50)],
            {60, 90},
            {"a": steps(0, 50), "b": [70, 80]},
        ),
    ],
)
def test_missing_files(starts, missing, expected):
    timed = [replace(start, began=float(number)) for number, start in enumerate(starts)]
    assert kept(written(*timed, missing=missing)) == expected


@pytest.mark.parametrize(
    ("steps_before", "resumed", "expected"),
    [(20, None, 10), (20, 9, 10), (2000, None, 0), (2000, 9, 10)],
)
def test_the_first_step_of_a_start_is_followed_as_far_as_that_takes_little(
    steps_before, resumed, expected
):
    """Of a very long one the step at which it can have begun is taken."""

    def file_at(step, worker="w0"):
        meta = RunMeta("a", step - 1 if step > 10 else None, resumed)
        read.append(step)
        return IndexFile(step, worker, Mode.TRAIN, step, None, meta, ())

    read: list[int] = []
    assert first_of_start(file_at(10 + steps_before), file_at) == expected
    assert len(read) <= 501


def test_the_order_of_the_files_does_not_matter():
    files = written(Start("a", 100), Start("b", 80, resumed=50), Start("c", 70, resumed=60))
    backwards = dict(reversed(files.items()))
    assert kept(backwards) == kept(files)
    assert starts_of(files.values()).current == {"c"}


def test_two_jobs_that_write_at_the_same_time_do_not_hide_each_other():
    files = written(Start("a", 100, began=1.0), Start("b", 100, every=20, began=2.0))
    for step in (30, 60):
        meta = RunMeta("b", step - 10, started=2.0)
        files[step, "w0"] = replace(files[step, "w0"], meta=meta)
    meta = RunMeta("a", 20, started=1.0)
    files[40, "w0"] = replace(files[40, "w0"], meta=meta)
    assert list(kept(files)) == ["b"]


def test_files_without_a_run_id_always_count():
    files = written(Start("a", 100), Start("b", 50))
    files = {place: replace(file, meta=None) for place, file in files.items()}
    found = starts_of(files.values())
    assert (found.until, found.current) == ({}, frozenset())
    assert all(map(found.keeps, files.values()))


def test_no_files():
    assert starts_of(()).current == frozenset()


def test_a_part_of_a_run():
    """What was left behind is found by the file that the part's first one follows on."""
    files = written(Start("a", 100), Start("b", 50))
    part = {place: file for place, file in files.items() if place[0] > 50}
    looked = []

    def file_at(step, worker):
        looked.append((step, worker))
        return files.get((step, worker))

    found = starts_of(part.values(), file_at)
    assert looked == [(50, "w0")]
    assert not any(map(found.keeps, part.values()))
    assert starts_of(part.values(), lambda step, worker: None).current == {"a"}


@st.composite
def histories(draw):
    """Starts one after the other; each goes on from a step that the last one has reached."""
    starts: list[Start] = []
    reached = 0
    workers = draw(st.sampled_from([("w0",), BOTH]))
    for number in range(draw(st.integers(1, 6))):
        resumed = None
        if starts and draw(st.booleans()):
            resumed = draw(st.integers(0, reached))
        begin = 0 if resumed is None else resumed + 1
        last = begin + draw(st.integers(0, 40))
        every = draw(st.sampled_from([1, 2, 3, 5, 7]))
        starts.append(Start(f"r{number}", last, resumed, every, workers, began=float(number)))
        reached = last
    return starts


@given(histories())
def test_what_survives_is_the_last_start_and_what_it_goes_on_from(starts):
    files: Files = {}
    for start in starts:
        if start.steps:  # a start that has saved nothing has left nothing
            first = start.steps[0] if start.resumed is not None else 0
            files = {place: file for place, file in files.items() if place[0] < first}
            start.write(files)
    found = written(*starts)
    assert kept(found) == kept_of(files)


def kept_of(files: Files) -> dict[str, list[int]]:
    steps: dict[str, set[int]] = {}
    for file in files.values():
        steps.setdefault(file.meta.run_id, set()).add(file.step)
    return {run_id: sorted(own) for run_id, own in steps.items()}


@given(histories())
def test_without_clocks_every_start_from_the_beginning_is_told(starts):
    """Of starts that all begin at the beginning, the files alone tell which was the last."""
    fresh = [replace(start, resumed=None, began=None) for start in starts]
    assert kept(written(*fresh)) == kept_of(written(fresh[-1]))

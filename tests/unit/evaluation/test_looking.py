from __future__ import annotations

import pytest
from tocsin.evaluation import FoundFile, plan
from tocsin.model import Mode
from tocsin.tensors import IndexFile, RunMeta

NOW = 1000.0
UNCHAINED = "unchained"


def file(
    step: int, worker: int = 0, prev: int | str | None = None, at: float = NOW, run_id: str = "a"
) -> FoundFile:
    meta = None if prev == UNCHAINED else RunMeta(run_id, prev)  # type: ignore[arg-type]
    return FoundFile(IndexFile(step, f"worker_{worker}", Mode.TRAIN, step, None, meta, ()), at)


def smdebug(step: int, worker: int = 0, at: float = NOW) -> FoundFile:
    return file(step, worker, UNCHAINED, at)


@pytest.mark.parametrize(
    ("seen", "workers", "frontier", "now", "expected", "wake_at"),
    [
        pytest.param([], 1, -1, NOW, [], None, id="nothing"),
        pytest.param([file(0)], 1, -1, NOW, [(0, 1, 0)], None, id="first step"),
        pytest.param(
            [file(0), file(5, prev=0)], 1, -1, NOW, [(0, 1, 0), (5, 1, 0)], None, id="chain"
        ),
        pytest.param([file(10, prev=5)], 1, 0, NOW, [], NOW + 60, id="gap holds"),
        pytest.param([file(10, prev=5)], 1, 5, NOW, [(10, 1, 0)], None, id="predecessor evaluated"),
        pytest.param(
            [file(10, prev=5, at=NOW - 60)],
            1,
            0,
            NOW,
            [(5, 0, 1), (10, 1, 0)],
            None,
            id="gap given up after 60 s: a lost step",
        ),
        pytest.param(
            [file(0), file(10, prev=5)], 1, -1, NOW, [(0, 1, 0)], NOW + 60, id="before the gap"
        ),
        pytest.param([file(0)], 2, -1, NOW, [], NOW + 60, id="worker missing holds"),
        pytest.param(
            [file(0, at=NOW - 61)], 2, -1, NOW, [(0, 1, 1)], None, id="missing worker given up"
        ),
        pytest.param(
            [file(0), file(0, 1), file(1, prev=0), file(2, prev=1), file(2, 1, prev=0)],
            2,
            -1,
            NOW,
            [(0, 2, 0), (1, 1, 0), (2, 2, 0)],
            None,
            id="worker 1 never had step 1, as its prev_step tells",
        ),
        pytest.param(
            [file(3, 1), file(3)], 2, -1, NOW, [(3, 2, 0)], None, id="workers in order of name"
        ),
        pytest.param([file(0)], None, -1, NOW, [], NOW + 60, id="number of workers unknown"),
        pytest.param(
            [file(0, at=NOW - 60)], None, -1, NOW, [(0, 1, 0)], None, id="unknown for 60 s"
        ),
        pytest.param([smdebug(0)], 1, -1, NOW, [], NOW + 5, id="no chain: grace"),
        pytest.param([smdebug(0, at=NOW - 5)], 1, -1, NOW, [(0, 1, 0)], None, id="grace over"),
        pytest.param(
            [smdebug(0), smdebug(10), smdebug(10, 1)],
            2,
            -1,
            NOW + 5,
            [(0, 1, 1), (10, 2, 0)],
            None,
            id="no chain: a later complete step closes an earlier one",
        ),
        pytest.param(
            [smdebug(0)], 2, -1, NOW + 59, [], NOW + 60, id="no chain: missing worker holds"
        ),
    ],
)
def test_plan(
    seen: list[FoundFile],
    workers: int | None,
    frontier: int,
    now: float,
    expected: list[tuple[int, int, int]],
    wake_at: float | None,
) -> None:
    planned = plan(seen, frontier=frontier, num_workers=workers, now=now, ended=False)
    assert [(item.step, len(item.files), item.missing) for item in planned.ready] == expected
    assert planned.wake_at == wake_at
    for item in planned.ready:
        assert [s.file.worker for s in item.files] == sorted(s.file.worker for s in item.files)


def test_the_end_of_the_run_closes_everything() -> None:
    seen = [file(0), file(2, prev=0), file(10, prev=5)]
    planned = plan(seen, frontier=-1, num_workers=2, now=NOW, ended=True)
    assert [(item.step, len(item.files)) for item in planned.ready] == [
        (0, 1),
        (2, 1),
        (5, 0),
        (10, 1),
    ]
    assert planned.wake_at is None


def test_a_refused_file_settles_its_worker() -> None:
    seen = [file(10, prev=5)]
    planned = plan(seen, frontier=0, num_workers=1, now=NOW, ended=False, refused=[(5, "worker_0")])
    assert [(item.step, len(item.files), item.missing) for item in planned.ready] == [
        (5, 0, 0),
        (10, 1, 0),
    ]


def test_workers_that_made_ids_of_their_own_are_one_start() -> None:
    seen = [
        file(0, 0, run_id="a"),
        file(0, 1, run_id="b", at=NOW + 1),
        file(1, 0, prev=0, run_id="a"),
        file(1, 1, prev=0, run_id="b"),
    ]
    planned = plan(seen, frontier=-1, num_workers=2, now=NOW, ended=False)
    assert [(item.step, len(item.files)) for item in planned.ready] == [(0, 2), (1, 2)]


@pytest.mark.parametrize(("mode", "mode_step"), [(Mode.TRAIN, 8), (Mode.EVAL, 10)])
def test_equal_numbers_of_other_steps_are_not_one_step(mode: Mode, mode_step: int) -> None:
    """One process evaluates, so its later steps have larger numbers than the others'."""
    other = IndexFile(10, "worker_1", mode, mode_step, None, RunMeta("a", None), ())
    (ready,) = plan(
        [file(10), FoundFile(other, NOW)],
        frontier=-1,
        num_workers=2,
        now=NOW,
        ended=False,
    ).ready
    assert [each.file.worker for each in ready.alike] == ["worker_0"]
    assert set(ready.without_tensors.times) == {"worker_0"}
    assert (len(ready.files), ready.missing) == (2, 0)

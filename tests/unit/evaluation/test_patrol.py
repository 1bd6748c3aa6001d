from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from tocsin.patrol import HintsLost, PatrolReport, patrol

NOW = 1_767_225_600.5


class Queue:
    def __init__(self, refuses: str = "") -> None:
        self.batches: list[tuple[Sequence[str], float]] = []
        self.refuses = refuses

    def __call__(self, runs: Sequence[str], now: float) -> None:
        self.batches.append((runs, now))
        if self.refuses in runs:
            raise HintsLost(f"not taken: {self.refuses}")

    @property
    def runs(self) -> list[str]:
        return [run for runs, _ in self.batches for run in runs]


def runs(count: int) -> list[str]:
    return [f"s3://captures/{number}" for number in range(count)]


def due(count: int, prefix: str = "run#") -> list[str]:
    return [f"{prefix}{run}" for run in runs(count)]


@pytest.mark.parametrize(
    ("count", "seconds", "sizes"),
    [
        (0, 60, []),
        (1, 60, [1]),
        (10, 60, [10]),
        (11, 60, [10, 1]),
        (2500, 400, [10] * 250),
        (25, 2, [10, 10]),
        (25, 0, []),
    ],
)
def test_hints_once_at_each_due_run_until_its_time_is_up(
    count: int, seconds: int, sizes: list[int]
) -> None:
    queue, ticks = Queue(), itertools.count()
    report = patrol(
        NOW,
        lambda now: due(count),
        {"run#": queue},
        ends=NOW + seconds,
        clock=lambda: NOW + next(ticks),
    )
    assert report == PatrolReport(sum(sizes), count - sum(sizes))
    assert [len(batch) for batch, _ in queue.batches] == sizes
    assert queue.runs == runs(count)[: sum(sizes)]
    assert {now for _, now in queue.batches} <= {NOW}


def test_each_kind_of_item_has_its_sender() -> None:
    hints, flushes = Queue(), Queue()
    keys = [*due(12), "silences", *due(3, "alerts#"), "other#s3://captures/9", *due(1)]
    senders = {"run#": hints, "alerts#": flushes}
    assert patrol(NOW, lambda now: keys, senders).sent == 16
    assert hints.runs == [*runs(12), *runs(1)]
    assert flushes.runs == runs(3)


def test_what_nobody_sends_for_takes_no_room() -> None:
    queue = Queue()
    keys = [*due(5, "job#"), *due(3)]
    assert patrol(NOW, lambda now: keys, {"run#": queue}, ends=NOW - 1) == PatrolReport(0, 3)
    assert patrol(NOW, lambda now: keys, {"run#": queue}).sent == 3
    assert queue.runs == runs(3)


def test_one_lost_hint_keeps_no_other_back() -> None:
    hints, flushes = Queue(refuses="s3://captures/3"), Queue(refuses="s3://captures/0")
    keys = [*due(25), *due(2, "alerts#")]
    with pytest.raises(HintsLost, match="not taken: s3://captures/3; not taken: s3://captures/0"):
        patrol(NOW, lambda now: keys, {"run#": hints, "alerts#": flushes})
    assert (hints.runs, flushes.runs) == (runs(25), runs(2))

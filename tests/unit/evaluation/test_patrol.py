from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from tocsin.evaluation import HintsLost, patrol

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


def due(count: int) -> list[str]:
    return [f"s3://captures/{number}" for number in range(count)]


@pytest.mark.parametrize(
    ("count", "most", "sizes"),
    [
        (0, 1000, []),
        (1, 1000, [1]),
        (10, 1000, [10]),
        (11, 1000, [10, 1]),
        (25, 12, [10, 2]),
        (25, 0, []),
    ],
)
def test_hints_once_at_each_due_run_up_to_a_bound(count: int, most: int, sizes: list[int]) -> None:
    queue = Queue()
    assert patrol(NOW, lambda now: due(count), queue, most) == min(count, most)
    assert [len(runs) for runs, _ in queue.batches] == sizes
    assert queue.runs == due(count)[:most]
    assert {now for _, now in queue.batches} <= {NOW}


def test_reads_no_more_than_it_sends() -> None:
    read = []

    def many(now: float) -> Iterator[str]:
        for number in range(10**9):
            read.append(number)
            yield f"s3://captures/{number}"

    assert patrol(NOW, many, Queue(), 30) == 30
    assert len(read) == 30


def test_one_lost_hint_keeps_no_other_back() -> None:
    queue = Queue(refuses="s3://captures/3")
    with pytest.raises(HintsLost, match="not taken: s3://captures/3"):
        patrol(NOW, lambda now: due(25), queue)
    assert queue.runs == due(25)

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


def runs(count: int) -> list[str]:
    return [f"s3://captures/{number}" for number in range(count)]


def due(count: int, prefix: str = "run#") -> list[str]:
    return [f"{prefix}{run}" for run in runs(count)]


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
    assert patrol(NOW, lambda now: due(count), {"run#": queue}, most) == min(count, most)
    assert [len(batch) for batch, _ in queue.batches] == sizes
    assert queue.runs == runs(count)[:most]
    assert {now for _, now in queue.batches} <= {NOW}


def test_each_kind_of_item_has_its_sender() -> None:
    hints, flushes = Queue(), Queue()
    keys = [*due(12), "silences", *due(3, "alerts#"), "other#s3://captures/9", *due(1)]
    senders = {"run#": hints, "alerts#": flushes}
    assert patrol(NOW, lambda now: keys, senders) == 16
    assert hints.runs == [*runs(12), *runs(1)]
    assert flushes.runs == runs(3)


def test_what_nobody_sends_for_takes_no_room() -> None:
    queue = Queue()
    assert patrol(NOW, lambda now: [*due(5, "job#"), *due(3)], {"run#": queue}, most=2) == 2
    assert queue.runs == runs(2)


def test_reads_no_more_than_it_sends() -> None:
    read = []

    def many(now: float) -> Iterator[str]:
        for number in range(10**9):
            read.append(number)
            yield f"run#s3://captures/{number}"

    assert patrol(NOW, many, {"run#": Queue()}, 30) == 30
    assert len(read) == 30


def test_one_lost_hint_keeps_no_other_back() -> None:
    hints, flushes = Queue(refuses="s3://captures/3"), Queue(refuses="s3://captures/0")
    keys = [*due(25), *due(2, "alerts#")]
    with pytest.raises(HintsLost, match="not taken: s3://captures/3; not taken: s3://captures/0"):
        patrol(NOW, lambda now: keys, {"run#": hints, "alerts#": flushes})
    assert (hints.runs, flushes.runs) == (runs(25), runs(2))

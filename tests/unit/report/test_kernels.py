"""Shares of a GPU's time, by the definitions of Holistic Trace Analysis."""

from __future__ import annotations

import numpy as np
import pytest
from tocsin.report.kernels import Kernels, device_time

COMPUTE, NCCL = "sgemm_128x64", "ncclDevKernel_AllReduce_Sum_f32"
COPY = "Memcpy HtoD (Pageable -> Device)"

Row = tuple[str, float, float]


def kernels(*rows: Row) -> Kernels:
    names, begins, ends = zip(*rows, strict=True) if rows else ((), (), ())
    return Kernels(list(names), np.array(begins, float), np.array(ends, float))


@pytest.mark.parametrize(
    ("rows", "idle", "compute", "rest", "communication", "overlap"),
    [
        pytest.param([(COMPUTE, 5, 15)], 0, 1, 0, 0, None, id="one kernel"),
        pytest.param([(COMPUTE, 0, 4), (COMPUTE, 6, 10)], 0.2, 0.8, 0, 0, None, id="a gap"),
        pytest.param(
            [(COMPUTE, 6, 10), (COMPUTE, 0, 5), (COMPUTE, 1, 2)], 0.1, 0.9, 0, 0, None,
            id="two streams, one kernel inside of another",
        ),
        pytest.param(
            [(COMPUTE, 0, 4), (NCCL, 2, 10)], 0, 0.4, 0.6, 0.8, 0.25,
            id="communication beside a kernel counts as compute",
        ),
        pytest.param(
            [(COMPUTE, 0, 4), (NCCL, 4, 6), (COPY, 8, 10)], 0.2, 0.4, 0.4, 0.2, 0.0,
            id="communication and copies alone",
        ),
        pytest.param(
            [("ncclKernel_x", 0, 10), (COMPUTE, 2, 4), (COMPUTE, 3, 5), (COMPUTE, 7, 8)],
            0, 0.4, 0.6, 1.0, 0.4, id="all of it beside communication",
        ),
    ],
)  # fmt: skip
def test_shares(
    rows: list[Row],
    idle: float,
    compute: float,
    rest: float,
    communication: float,
    overlap: float | None,
) -> None:
    found = device_time(kernels(*rows))
    assert found is not None
    assert found.span == 10
    shares = (found.idle, found.compute, found.rest, found.communication)
    assert shares == pytest.approx((idle, compute, rest, communication))
    assert found.overlap == (overlap if overlap is None else pytest.approx(overlap))


@pytest.mark.parametrize("rows", [[], [(COMPUTE, 3, 3)]])
def test_without_kernels_there_are_no_shares(rows: list[Row]) -> None:
    assert device_time(kernels(*rows)) is None

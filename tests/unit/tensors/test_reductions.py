from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tocsin.tensors import REDUCTIONS, base_name, parse_reduction, reduced, reduction_name


@pytest.mark.parametrize(
    ("name", "reduction", "base"),
    [
        ("smdebug/reductions/min/fc.weight", "min", "fc.weight"),
        ("smdebug/reductions/abs_l2/gradient/fc.weight", "abs_l2", "gradient/fc.weight"),
        ("smdebug/reductions/mean/dense/kernel:0", "mean", "dense/kernel:0"),
    ],
)
def test_reductions(name: str, reduction: str, base: str) -> None:
    assert parse_reduction(name) == (reduction, base)
    assert base_name(name) == base


@pytest.mark.parametrize(
    "name", ["fc.weight", "reductions/min/fc", "smdebug/reductions/min", "smdebug/reductions/min/"]
)
def test_other_tensors(name: str) -> None:
    assert parse_reduction(name) is None
    assert base_name(name) == name


def test_colons_are_removed_as_smdebug_does() -> None:
    assert reduction_name("abs_mean", "a:0/b:12") == "smdebug/reductions/abs_mean/a/b"


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_the_name_of_each_is_read_again(reduction: str) -> None:
    assert parse_reduction(reduction_name(reduction, "fc")) == (reduction, "fc")


EXPECTED = {  # of 3, -1, 2, -6
    "min": -6,
    "max": 3,
    "mean": -0.5,
    "median": 0.5,
    "std": 3.5,
    "variance": 12.25,
    "sum": -2,
    "prod": 36,
    "l1": 12,
    "l2": math.sqrt(50),
    "abs_min": 1,
    "abs_max": 6,
    "abs_mean": 3,
    "abs_median": 2.5,
    "abs_std": math.sqrt(3.5),
    "abs_variance": 3.5,
    "abs_sum": 12,
    "abs_prod": 36,
    "abs_l1": 12,
    "abs_l2": math.sqrt(50),
}


def test_the_table_is_complete() -> None:
    assert set(EXPECTED) == set(REDUCTIONS)


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", ">f4", "i8", "i1"])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_of_the_whole_tensor_whatever_its_shape(reduction: str, dtype: str) -> None:
    values = np.array([[3, -1], [2, -6]], dtype)
    assert reduced(values, reduction) == pytest.approx(EXPECTED[reduction], rel=1e-15)
    assert reduced(values.T, reduction) == pytest.approx(EXPECTED[reduction], rel=1e-15)


@pytest.mark.parametrize(
    ("values", "reduction", "expected"),
    [
        (np.full(100, 1000, np.float16), "sum", 100_000.0),  # more than a float16 holds
        (np.full(10_001, 0.1, np.float16), "mean", float(np.float16(0.1))),
        (np.array([1e30, 1e30], np.float32), "l2", float(np.float32(1e30)) * math.sqrt(2)),
        (np.array([200, 100], np.uint8), "sum", 300.0),
        (np.array([-128], np.int8), "abs_max", 128.0),
        (np.array([True, False, True]), "sum", 2.0),
        (np.array(-2.5), "abs_mean", 2.5),
        (np.array([3 + 4j]), "l2", 5.0),
        (np.array([3 + 4j, 0]), "abs_mean", 2.5),
        (np.array([1.0, np.inf]), "mean", math.inf),
        (np.array([-np.inf, np.inf]), "sum", math.nan),
        (np.array([1.0, np.nan]), "max", math.nan),
        (np.array([1.0, np.nan]), "median", math.nan),
        (np.array([1e200, 1e200]), "prod", math.inf),
        (np.zeros((0, 3)), "sum", 0.0),
        (np.zeros(0), "abs_prod", 1.0),
        (np.zeros(0), "l2", 0.0),
        (np.zeros(0), "min", math.nan),
        (np.zeros(0), "mean", math.nan),
    ],
)
def test_odd_values(values: NDArray[Any], reduction: str, expected: float) -> None:
    assert reduced(values, reduction) == pytest.approx(expected, rel=1e-12, nan_ok=True)


@pytest.mark.parametrize(
    ("values", "reduction", "message"),
    [
        (np.ones(2), "average", "'average' is not a reduction: there are min, max"),
        (np.ones(2), "abs_abs_min", "not a reduction"),
        (np.ones(2), "l2_norm", "not a reduction"),
        (np.array(["a"]), "min", "min of values of type <U1"),
        (np.array([1j]), "mean", "mean of values of type complex128"),
    ],
)
def test_refused(values: NDArray[Any], reduction: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        reduced(values, reduction)

"""The one pass over a tensor says what the plain formulas say."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tocsin.tensors.moments import moments

BLOCK = 1 << 15
TYPES = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?", "c8", "c16", ">f4"]


def _check(value, found):
    """Against the formulas in doubles, each sum exact up to its last digits."""
    real = np.abs(value.astype(complex)) if value.dtype.kind == "c" else value.astype(float)
    finite = real[np.isfinite(real)]
    assert found.nan == np.isnan(real).sum()
    assert found.posinf == (real == math.inf).sum()
    assert found.neginf == (real == -math.inf).sum()
    assert found.finite == len(finite)
    assert found.zeros == (finite == 0).sum()
    if not len(finite):
        assert all(map(math.isnan, (found.minimum, found.maximum, found.mean, found.variance)))
        assert (found.l1, found.l2) == (0.0, 0.0)
        return
    assert (found.minimum, found.maximum) == (finite.min(), finite.max())
    count = len(finite)
    norm = math.fsum(np.abs(finite))
    assert found.l1 == pytest.approx(norm, rel=1e-13)
    assert found.abs_mean == pytest.approx(norm / count, rel=1e-13)
    mean = math.fsum(finite) / count
    assert found.mean == pytest.approx(mean, rel=1e-12, abs=1e-13 * norm / count)
    assert found.l2 == pytest.approx(math.hypot(*finite), rel=1e-12)
    variance = math.fsum((finite - mean) ** 2) / count
    rounding = (1e-15 * np.abs(finite).max()) ** 2
    assert found.variance == pytest.approx(variance, rel=1e-11, abs=rounding)


@given(st.data(), st.sampled_from(TYPES))
def test_small_arrays(data, dtype):
    numbers = {"f": {"min_value": -1e4, "max_value": 1e4}, "c": {"max_magnitude": 1e4}}
    elements = hnp.from_dtype(np.dtype(dtype), **numbers.get(np.dtype(dtype).kind, {}))
    value = data.draw(hnp.arrays(dtype, st.integers(0, 30), elements=elements))
    _check(value, moments(value))


@given(
    st.integers(1, 3 * BLOCK),
    st.sampled_from(["f2", "f4", "f8", "i4", "c8"]),
    st.sampled_from([0.0, 1.0, -3.0, 1000.0]),
    st.sampled_from([0.0, 1e-3, 1.0, 10.0]),
    st.integers(0, 5),
    st.integers(0, 2**32),
)
def test_large_arrays(size, dtype, mean, deviation, odd, seed):
    rng = np.random.default_rng(seed)
    value = (mean + deviation * rng.standard_normal(size)).astype(dtype)
    if value.dtype.kind in "fc":
        value[rng.integers(0, size, odd)] = rng.choice([math.nan, math.inf, -math.inf, 0.0], odd)
    _check(value, moments(value))


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1.0, 1e160, 1e300])
@pytest.mark.parametrize("size", [3, 2 * BLOCK + 1])
def test_any_magnitude(size, scale):
    plain = np.random.default_rng(0).standard_normal(size)
    expected, found = moments(plain), moments(plain * scale)
    assert found.l1 == pytest.approx(expected.l1 * scale)
    assert found.l2 == pytest.approx(expected.l2 * scale)
    assert found.mean == pytest.approx(expected.mean * scale)
    variance = Fraction(expected.variance) * Fraction(scale) ** 2
    representable = variance < Fraction(2) ** 1024
    assert found.variance == pytest.approx(float(variance) if representable else math.inf)


def test_few_huge_elements_among_small_ones():
    value = np.ones(2 * BLOCK)
    value[[5, BLOCK + 5]] = 1e200, -1e200
    found = moments(value)
    assert (found.minimum, found.maximum, found.zeros) == (-1e200, 1e200, 0)
    assert found.l2 == pytest.approx(math.sqrt(2) * 1e200)
    assert found.variance == math.inf


@pytest.mark.parametrize("number", [0.0, 0.1, -1e300, 5e-324, 3.0])
@pytest.mark.parametrize("size", [1, 2, 3, 1000, BLOCK + 3])
def test_equal_elements_do_not_vary(number, size):
    found = moments(np.full(size, number))
    assert found.variance == 0.0
    assert found.mean == pytest.approx(number, rel=1e-15)


@pytest.mark.parametrize("where", [0, BLOCK - 1, BLOCK, 2 * BLOCK])
def test_blocks_of_nothing_finite(where):
    value = np.full(2 * BLOCK + 1, math.nan)
    value[where] = 2.0
    found = moments(value)
    assert (found.nan, found.finite, found.mean, found.variance) == (2 * BLOCK, 1, 2.0, 0.0)


@given(st.data(), st.sampled_from(TYPES), st.sampled_from(TYPES))
def test_differences(data, dtype, other):
    size = data.draw(st.integers(0, 10))
    value, previous = (
        data.draw(hnp.arrays(kind, size, elements=hnp.from_dtype(np.dtype(kind))))
        for kind in (dtype, other)
    )
    complex_or_not = complex if "c" in value.dtype.kind + previous.dtype.kind else float
    with np.errstate(all="ignore"):
        difference = np.abs(value.astype(complex_or_not) - previous.astype(complex_or_not))
    found, expected = moments(value, previous), moments(difference)
    assert found == expected or (found.finite, expected.finite) == (0, 0)


def test_differences_of_large_arrays():
    rng = np.random.default_rng(0)
    value, previous = rng.standard_normal((2, 2 * BLOCK + 7)).astype(np.float32)
    found = moments(value, previous)
    difference = value.astype(float) - previous
    assert found.l1 == pytest.approx(np.abs(difference).sum())
    assert found.l2 == pytest.approx(np.linalg.norm(difference))

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tocsin.model import TensorSummary
from tocsin.tensors import summarize

NAN, INF = math.nan, math.inf


def _numbers(summary):
    fields = ["size", "nan", "posinf", "neginf", "zeros", "min", "max", "mean", "abs_mean"]
    return [getattr(summary, name) for name in [*fields, "variance", "l1", "l2"]]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.array([3.0, -4.0], np.float32), [2, 0, 0, 0, 0, -4, 3, -0.5, 3.5, 12.25, 7, 5]),
        (np.array(-2.0), [1, 0, 0, 0, 0, -2, -2, -2, 2, 0, 2, 2]),
        (np.array([], np.float32), [0, 0, 0, 0, 0, None, None, None, None, None, 0, 0]),
        (np.array([NAN, INF, -INF, -INF, 0, 6]), [6, 1, 1, 2, 1, 0, 6, 3, 3, 9, 6, 6]),
        (np.array([NAN, NAN]), [2, 2, 0, 0, 0, None, None, None, None, None, 0, 0]),
        (np.array([[0, 3], [-4, 1]], np.int8), [4, 0, 0, 0, 1, -4, 3, 0, 2, 6.5, 8, 26**0.5]),
        (np.array([250, 250], np.uint8), [2, 0, 0, 0, 0, 250, 250, 250, 250, 0, 500, 250 * 2**0.5]),
        (np.array([True, False]), [2, 0, 0, 0, 1, 0, 1, 0.5, 0.5, 0.25, 1, 1]),
        (np.array([3 + 4j, 0]), [2, 0, 0, 0, 1, 0, 5, 2.5, 2.5, 6.25, 5, 5]),
        (np.array([complex(NAN, 0), complex(0, INF)]), [2, 1, 1, 0, 0, *[None] * 5, 0, 0]),
        (  # sums beyond what the type itself can hold
            np.full(4, 60000, np.float16),
            [4, 0, 0, 0, 0, 60000, 60000, 60000, 60000, 0, 240000, 120000],
        ),
        (
            np.array([1e300, -1e300]),
            [2, 0, 0, 0, 0, -1e300, 1e300, 0, 1e300, None, 2e300, 2**0.5 * 1e300],
        ),
        (
            np.array([1.7e308, 1.7e308]),
            [2, 0, 0, 0, 0, 1.7e308, 1.7e308, 1.7e308, 1.7e308, 0, None, None],
        ),
        (
            np.array([3e-200, 4e-200]),
            [2, 0, 0, 0, 0, 3e-200, 4e-200, 3.5e-200, 3.5e-200, 0, 7e-200, 5e-200],
        ),
        (np.array(["a", "b"]), [2, *[None] * 11]),
        (np.array(["a", "b"], object), [2, *[None] * 11]),
    ],
)
def test_numbers(value, expected):
    for number, right in zip(_numbers(summarize(value)), expected, strict=True):
        assert number == (right if right is None else pytest.approx(right, rel=1e-12, abs=0))


def test_strided_and_big_endian_values():
    plain = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
    assert summarize(plain.T.copy().T) == summarize(plain)
    assert summarize(plain.astype(">f4")) == summarize(plain)


@pytest.mark.parametrize(
    ("value", "previous", "expected"),
    [
        ([4.0, 5.0], None, (None, None)),
        ([4.0, 5.0], [1.0, 1.0], (7.0, 5.0)),
        ([4.0, 5.0], [4.0, 5.0], (0.0, 0.0)),
        ([4.0, 5.0], [1.0], (None, None)),  # the tensor has changed its shape
        ([4.0, NAN], [1.0, 1.0], (3.0, 3.0)),
        ([4.0, INF], [1.0, INF], (3.0, 3.0)),
        ([3 + 4j], [0], (5.0, 5.0)),
        ([5.0], ["a"], (None, None)),
        ([], [], (0.0, 0.0)),
    ],
)
def test_update(value, previous, expected):
    before = None if previous is None else np.array(previous)
    summary = summarize(np.array(value), before)
    assert (summary.update_l1, summary.update_l2) == pytest.approx(expected)


def test_unsigned_updates_do_not_wrap():
    assert summarize(np.array([1], np.uint8), np.array([3], np.uint8)).update_l1 == 2


def test_fingerprint_tells_whether_a_tensor_changed():
    one = summarize(np.arange(4.0))
    assert len(one.fingerprint) == 32
    assert one.fingerprint == summarize(np.arange(4.0)).fingerprint
    assert one.fingerprint != summarize(np.arange(4.0) + 1e-12).fingerprint
    assert summarize(np.array(["a"])) == TensorSummary(size=1)


@given(
    hnp.arrays(
        st.sampled_from([np.float16, np.float32, np.float64, np.int64, np.complex64, np.bool_]),
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0),
    )
)
def test_every_result_is_finite_or_unknown(value):
    summary = summarize(value, value[::-1] if value.ndim else None)
    for name in TensorSummary.__struct_fields__:
        number = getattr(summary, name)
        assert number is None or isinstance(number, str) or math.isfinite(number)
    assert summary.nan + summary.posinf + summary.neginf + summary.zeros <= summary.size

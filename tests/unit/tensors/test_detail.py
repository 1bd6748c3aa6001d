"""What a rule asks for beyond the plain numbers, against plain numpy."""

from __future__ import annotations

import base64
import json
import math
import tracemalloc

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tocsin.model import Bounds, Channels, Detail, TensorSummary
from tocsin.tensors import answers, detailed

NAN, INF = math.nan, math.inf
POSITIVE = Detail(active=(0, None))
ALL = Detail(quantiles=(0.05, 0.5), active=(-1, 1), channel_axis=1)


def _counts(summary):
    return np.frombuffer(base64.b64decode(summary.unit_active), "<u4").tolist()


@pytest.mark.parametrize(
    ("value", "active", "bounds", "counts"),
    [
        ([[0.0, 1.0], [-1.0, 2.0]], (0, None), (2, 0), [0, 2]),
        ([[0.0, 1.0], [-1.0, 2.0]], (None, 2), (0, 1), [2, 1]),
        ([[0.0, 1.0], [-1.0, 2.0]], (-1, 2), (1, 1), [1, 1]),
        ([[0.0, 1.0], [-1.0, 2.0]], (None, None), (0, 0), [2, 2]),
        ([[NAN, 1.0], [INF, -INF]], (0, None), (1, 0), [1, 1]),  # NaN is nowhere
        ([[NAN, 1.0], [INF, -INF]], (-5, 5), (1, 1), [0, 1]),
        ([[NAN, NAN]], (None, None), (0, 0), [0, 0]),
        ([1.0, 0.0, 2.0], (0, None), (1, 0), [1, 0, 1]),  # one sample
        (3.0, (0, None), (0, 0), [1]),
        (np.int8([[0, -3], [5, 5]]), (0, None), (2, 0), [1, 1]),
        (np.uint8([[0, 255]]), (-5, 300), (0, 0), [1, 1]),
        (np.array([[True, False]]), (0, None), (1, 0), [1, 0]),
        (np.float16([[9.5, 9.49]]), (-9.4999, 9.4999), (0, 1), [0, 1]),
        (np.ones((2, 3, 4)), (0, None), (0, 0), [6, 6, 6, 6]),
        (np.ones((2, 3, 4, 5)), (0, None), (0, 0), [40, 40, 40]),
        (np.ones((2, 3, 1, 1, 2)), (0, None), (0, 0), [4, 4, 4]),
    ],
)
def test_activity(value, active, bounds, counts):
    summary = detailed(np.asarray(value), Detail(active=active))
    assert summary.bounds == Bounds(*active, *bounds)
    assert _counts(summary) == counts
    assert (summary.units, summary.inactive_units) == (len(counts), counts.count(0))
    assert (summary.size, summary.quantiles, summary.channels) == (None, None, None)


@pytest.mark.parametrize(
    ("axis", "counts"), [(0, [0, 12]), (1, [4, 4, 4]), (-1, [3] * 4), (2, [3] * 4), (3, None)]
)
def test_units_along_another_axis(axis, counts):
    value = np.stack([np.zeros((3, 4)), np.ones((3, 4))])
    summary = detailed(value, Detail(active=(0, None), unit_axis=axis))
    assert summary.bounds == Bounds(0, None, 12, 0)
    if counts is None:
        assert (summary.units, summary.inactive_units, summary.unit_active) == (None, None, None)
    else:
        assert (summary.units, _counts(summary)) == (len(counts), counts)


@pytest.mark.parametrize(
    ("value", "wanted", "expected"),
    [
        ([1.0, 2.0, 3.0, 4.0], (0.0, 0.5, 1.0), {"0.0": 1, "0.5": 2.5, "1.0": 4}),
        ([[NAN, 1.0], [INF, 2.0]], (0.05,), {"0.05": 1.05}),
        ([NAN, -INF], (0.5,), None),
        ([True, False], (0.5,), {"0.5": 0.5}),
        (7, (0.95,), {"0.95": 7}),
        ([1e308, -1.7e308], (0.25,), {"0.25": -1.025e308}),
    ],
)
def test_quantiles(value, wanted, expected):
    found = detailed(np.asarray(value), Detail(quantiles=wanted)).quantiles
    assert found == (expected if expected is None else pytest.approx(expected))


@pytest.mark.parametrize(
    ("value", "axis", "mean", "variance"),
    [
        ([[1.0, 10.0], [3.0, 10.0]], 1, [2, 10], [1, 0]),
        ([[1.0, 10.0], [3.0, 10.0]], 0, [5.5, 6.5], [20.25, 12.25]),
        ([[1.0, 10.0], [3.0, 10.0]], -2, [5.5, 6.5], [20.25, 12.25]),
        ([[NAN, 10.0], [INF, NAN]], 1, [None, 10], [None, 0]),
        ([[1.7e308], [1.7e308]], 1, [None], [None]),
        (np.uint8([[200, 0], [250, 0]]), 1, [225, 0], [625, 0]),
        ([[1e8], [1e8 + 2]], 1, [1e8 + 1], [1]),
    ],
)
def test_channels(value, axis, mean, variance):
    found = detailed(np.asarray(value), Detail(channel_axis=axis)).channels
    assert found.axis == axis
    assert found.mean == pytest.approx(mean)
    assert found.variance == pytest.approx(variance)


@pytest.mark.parametrize(
    ("value", "axis"),
    [(np.zeros(3), 1), (np.zeros((2, 3)), 2), (np.zeros((1, 4097)), 1), (np.zeros(()), -2)],
)
def test_no_channels(value, axis):
    assert detailed(value, Detail(channel_axis=axis)) == TensorSummary()


@pytest.mark.parametrize(
    "value",
    [
        np.array([[1 + 2j]]),
        np.array([["a"]]),
        np.array([["a"]], object),
        np.zeros((0, 3)),
        np.zeros((3, 0)),
        np.array(["2024-01-01"], "datetime64[D]"),
    ],
)
def test_nothing_to_say(value):
    assert detailed(value, ALL) == TensorSummary()
    assert not answers(detailed(value, ALL), ALL)


def test_nothing_asked():
    assert detailed(np.ones(3), Detail()) == TensorSummary()
    assert answers(TensorSummary(), Detail())


def test_many_units_are_not_counted_one_by_one():
    value = np.zeros((1, 1 << 17), np.int8)
    value[0, :5] = 1
    summary = detailed(value, POSITIVE)
    assert (summary.units, summary.inactive_units) == (1 << 17, (1 << 17) - 5)
    assert summary.unit_active is None
    assert answers(summary, POSITIVE)


def _expected(value, detail):
    """The same in plain numpy, all at once."""
    wide = np.atleast_1d(value).astype(float)
    axis = 1 if wide.ndim >= 4 else wide.ndim - 1
    others = tuple(each for each in range(wide.ndim) if each != axis)
    low, high = detail.active
    inside = ((wide > low) & (wide < high)).sum(axis=others)
    finite = wide[np.isfinite(wide)]
    quantiles = np.quantile(finite, detail.quantiles).tolist() if finite.size else None
    return inside.tolist(), (wide <= low).sum(), (wide >= high).sum(), quantiles


@given(
    hnp.arrays(
        st.sampled_from(["f2", "f4", "f8", "i1", "u1", "i8", "?"]),
        hnp.array_shapes(min_dims=0, max_dims=5, max_side=4),
    )
)
def test_any_value(value):
    summary = detailed(value, ALL)
    inside, below, above, quantiles = _expected(value, ALL)
    assert (_counts(summary), summary.bounds.below, summary.bounds.above) == (inside, below, above)
    if quantiles is None or not np.isfinite(quantiles).all():
        assert summary.quantiles is None or np.isfinite(list(summary.quantiles.values())).all()
    else:
        assert list(summary.quantiles.values()) == pytest.approx(quantiles)
    if summary.channels is not None:
        columns = np.moveaxis(value.astype(float), 1, 0).reshape(value.shape[1], -1)
        for column, mean in zip(columns, summary.channels.mean, strict=True):
            finite = column[np.isfinite(column)]
            assert mean is None or mean == pytest.approx(
                math.fsum(finite) / len(finite), abs=1e-9 * np.abs(finite).max()
            )
    encoded = msgspec.json.encode(summary)
    assert "NaN" not in json.dumps(json.loads(encoded))
    assert msgspec.json.decode(encoded, type=TensorSummary) == summary


@pytest.mark.parametrize(
    "shape",
    [
        (70_000,),
        (1, 70_000),
        (70_000, 1),
        (300, 300),
        (3, 5, 40_000),
        (2, 3, 200, 200),
        (90, 3, 9, 9),
    ],
)
def test_in_blocks(shape):
    value = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    summary = detailed(value, ALL)
    inside, below, above, quantiles = _expected(value, ALL)
    units = summary.units
    assert (units, summary.bounds.below, summary.bounds.above) == (len(inside), below, above)
    assert summary.unit_active is None or _counts(summary) == inside
    assert list(summary.quantiles.values()) == pytest.approx(quantiles)
    if value.ndim > 1 and shape[1] <= 4096:
        others = tuple(each for each in range(value.ndim) if each != 1)
        assert summary.channels.mean == pytest.approx(value.mean(others, float), abs=1e-12)
        assert summary.channels.variance == pytest.approx(value.var(others, float))


def test_a_strided_value_is_as_good():
    value = np.random.default_rng(1).standard_normal((6, 4, 5))
    assert detailed(value.T, ALL) == detailed(value.T.copy(), ALL)


def test_large_quantiles_come_from_a_sample_of_every_column():
    value = np.tile(np.float32([0, 1, 2, 3]), (1_000_000, 1))
    found = detailed(value, Detail(quantiles=(0.1, 0.4, 0.6, 0.9))).quantiles
    assert found == {"0.1": 0, "0.4": 1, "0.6": 2, "0.9": 3}


def test_takes_little_memory():
    value = np.ones((4, 1 << 20), np.int8)
    tracemalloc.start()
    detailed(value, Detail(active=(0, None), channel_axis=0))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 24 << 20  # the counters of a million units, and a block


FULL = detailed(np.ones((2, 3)), ALL)


@pytest.mark.parametrize(
    ("detail", "expected"),
    [
        (ALL, True),
        (Detail(), True),
        (Detail(quantiles=(0.5,)), True),
        (Detail(quantiles=(0.5, 0.95)), False),
        (Detail(active=(-1.0, 1.0)), True),
        (Detail(active=(-1, None)), False),
        (POSITIVE, False),
        (Detail(active=(-1, 1), unit_axis=0), False),
        (Detail(channel_axis=1), True),
        (Detail(channel_axis=0), False),
    ],
)
def test_a_captured_summary_answers_what_was_asked_of_it(detail, expected):
    captured = msgspec.json.decode(msgspec.json.encode(FULL), type=TensorSummary)
    assert answers(captured, detail) is expected
    assert not answers(TensorSummary(size=6, mean=1.0), detail) or detail == Detail()


@pytest.mark.parametrize("missing", ["bounds", "units", "inactive_units", "unit_active"])
def test_half_an_answer_is_none(missing):
    assert not answers(msgspec.structs.replace(FULL, **{missing: None}), Detail(active=(-1, 1)))


def test_channels_of_another_axis_are_no_answer():
    summary = TensorSummary(channels=Channels(2, (0.0,), (1.0,)))
    assert not answers(summary, Detail(channel_axis=1))

"""Reductions that were not stored."""

from __future__ import annotations

import numpy as np
import pytest
from tocsin.model import TensorSummary
from tocsin.tensors import summarize
from tocsin.trial.reduce import reduce_value, summary_reductions

W = np.arange(-5.0, 7.0).reshape(3, 4)


@pytest.mark.parametrize(
    ("name", "absolute", "expected"),
    [
        ("min", False, -5),
        ("min", True, 0),
        ("max", False, 6),
        ("mean", False, 0.5),
        ("mean", True, 3),
        ("std", False, np.sqrt(143 / 12)),
        ("variance", False, 143 / 12),
        ("sum", False, 6),
        ("sum", True, 36),
        ("prod", False, 0),
        ("l1", False, 36),
        ("l2", False, np.sqrt(146)),
        ("l2", True, np.sqrt(146)),
    ],
)
def test_of_a_value(name, absolute, expected):
    assert reduce_value(name, W, absolute=absolute) == pytest.approx(expected)


@pytest.mark.parametrize("name", ["l1", "l2", "max"])
def test_of_a_number(name):
    assert reduce_value(name, np.float32(-2).reshape(()), absolute=True) == 2


@pytest.mark.parametrize("name", ["median", "", "abs_mean", "Mean"])
def test_of_no_name(name):
    with pytest.raises(ValueError, match="is not a reduction"):
        reduce_value(name, W, absolute=False)


def test_of_nothing():
    with pytest.raises(ValueError, match="zero-size"):
        reduce_value("min", np.empty(0), absolute=False)


def test_of_a_summary():
    known = summary_reductions(summarize(W))
    assert len(known) == 12
    for (name, absolute), number in known.items():
        assert number == pytest.approx(reduce_value(name, W, absolute=absolute))


@pytest.mark.parametrize(
    ("summary", "known"),
    [
        (TensorSummary(), {}),
        (TensorSummary(mean=2.0), {("mean", False): 2.0}),
        (TensorSummary(min=-3.0), {("min", False): -3.0}),
        (
            TensorSummary(min=-3.0, max=1.0),
            {("min", False): -3.0, ("max", False): 1.0, ("max", True): 3.0},
        ),
        (TensorSummary(l1=0.0), {("l1", False): 0.0, ("l1", True): 0.0, ("sum", True): 0.0}),
    ],
)
def test_of_a_summary_with_holes(summary, known):
    assert summary_reductions(summary) == known

"""Batches whose samples have weights."""

from __future__ import annotations

import numpy as np
import pytest
from tocsin_hooks.keras.losses import compares_all
from tocsin_hooks.keras.weighted import are_upside_down, drawn_by_weight

MOSTLY = np.repeat([0, 1], [90, 10])


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        (np.ones(16), np.arange(16)),
        (np.repeat([1.0, 0.0], 16), np.repeat(np.arange(16), 2)),
        (np.repeat([3.0, 1.0], 16)[:, None], None),
        (np.zeros(16), False),
        (np.eye(16)[0], False),
        (np.full(16, np.nan), False),
        (-np.ones(16), False),
        (np.ones((16, 2)), False),
        (np.zeros(0), False),
    ],
)
def test_samples_are_drawn_as_often_as_they_weigh(weights, expected):
    found = drawn_by_weight(weights)
    if expected is False:
        assert found is None
    elif expected is None:
        assert np.bincount(found, minlength=32)[:16].sum() == 24
    else:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("labels", "weights", "expected"),
    [
        (MOSTLY, np.where(MOSTLY == 0, 5.0, 0.5), True),
        (MOSTLY[:, None].astype(float), np.where(MOSTLY == 0, 5.0, 0.5), True),
        (np.eye(2)[MOSTLY], np.where(MOSTLY == 0, 5.0, 0.5), True),
        (MOSTLY, np.where(MOSTLY == 0, 0.5, 5.0), False),
        (MOSTLY, np.where(MOSTLY == 0, 1.0, 0.0), False),  # the rest is left out
        (MOSTLY, np.where(MOSTLY == 0, 1.0, 0.5), False),
        (MOSTLY, np.linspace(5, 1, 100), False),  # not by class
        (MOSTLY + 0.5, np.where(MOSTLY == 0, 5.0, 0.5), False),  # no classes
        (None, np.ones(100), False),
        ({"a": MOSTLY}, np.ones(100), False),
    ],
)
def test_the_most_frequent_class_weighs_most(labels, weights, expected):
    assert are_upside_down(labels, weights) is expected


NUMBERS = np.random.default_rng(0).normal(size=(2, 16, 1))


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        (lambda y, p: np.mean((y - p) ** 2), False),
        (lambda y, p: np.mean((y[:, 0] - p) ** 2), True),
        (lambda y, p: np.mean(np.abs(y - p[:, 0])), True),
        (lambda y, p: np.mean(y - p.mean()) ** 2, False),
        (lambda y, p: (np.mean(y) - np.mean(p)) ** 2, False),
        (lambda y, p: np.mean(p**2), False),
        (lambda y, p: np.mean(y) - np.mean(p), False),
    ],
)
def test_a_loss_of_each_prediction_with_each_label(loss, expected):
    assert compares_all(loss, *NUMBERS) is expected

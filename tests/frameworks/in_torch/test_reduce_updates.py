"""How far tensors moved since their last save, told on a device as on the host."""

from __future__ import annotations

import math

import pytest
import torch
from tocsin.model import Mode
from tocsin.tensors import update_norms
from tocsin_hooks.torch.reductions import updates
from tocsin_hooks.torch.reductions.reduce import Reducer

from tests.frameworks.in_torch.reducing import (
    DEVICE,
    assert_alike,
    captured,
    fail,
    on_device,
    plan_of,
    summary_on_device,
)

NAN, INF = math.nan, math.inf
PLAN = plan_of(update=True)


def moved(*steps, reducer=None, plan=PLAN):
    """The last update of a tensor that had these values at its saves."""
    reducer = reducer or on_device()
    for step in steps:
        found = captured(reducer, (plan, step.to(DEVICE)))
    summary = found["w"].summary
    return summary.update_l1, summary.update_l2


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.int16])
def test_exact(dtype):
    before = torch.tensor([1.0, 1.0, 5.0]).to(dtype)
    assert moved(before, torch.tensor([4, 5, 5]).to(dtype)) == (7, 5)
    assert moved(before, before) == (0, 0)
    assert moved(before) == (None, None)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([1.0, 1.0], [4.0, NAN]),
        ([1.0, INF], [4.0, INF]),
        ([1e308, 1.0], [-1e308, 1.0]),  # a distance beyond a double
        ([1e308, 1e308, 1e308], [0.0, 0.0, 0.0]),  # a norm beyond one
        ([0.0, 0.0], [3e200, 4e200]),
        ([0.0, 0.0], [3e-200, 4e-200]),
    ],
)
def test_odd_numbers(before, after):
    before, after = (torch.tensor(numbers, dtype=torch.float64) for numbers in (before, after))
    l1, l2 = update_norms(after.numpy(), before.numpy())
    assert moved(before, after) == (_near(l1), _near(l2))


def _near(number):
    return number if number is None else pytest.approx(number, rel=1e-12, abs=0)


@pytest.mark.parametrize("size", [2, 16_384, 16_385, 60_000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int32])
def test_it_is_what_the_host_says(size, dtype):
    before, after = ((torch.randn(size) * 9).to(dtype) for _ in range(2))
    reducer, plan = Reducer(fail), plan_of(update=True, fingerprint=True)
    captured(reducer, (plan, before))
    on_host = captured(reducer, (plan, after))["w"].summary
    assert on_host.update_l2 > 0
    found = summary_on_device(after, before, update=True, fingerprint=True)
    assert_alike(found, on_host)


def test_a_large_tensor_is_estimated():
    before = torch.randn(300, 1000)
    change = torch.randn(300, 1000) * 1e-3
    l1, l2 = moved(before, before + change)
    assert l1 == pytest.approx(float(change.abs().sum()), rel=0.05)
    assert l2 == pytest.approx(float(change.norm()), rel=0.05)


def test_a_change_that_the_sample_does_not_see():
    before = torch.zeros(300, 1000)
    after = before.clone()
    after[0, 1] = 1.0  # the sample takes the first element, and every nineteenth from there
    assert moved(before, before) == (0, 0)
    assert moved(before, after) == (None, None)
    assert moved(before, after, after) == (0, 0)


def test_another_shape_or_type_is_another_tensor():
    before = torch.ones(4)
    assert moved(before, torch.ones(2, 2)) == (None, None)
    assert moved(before, torch.ones(4, dtype=torch.float64)) == (None, None)
    assert moved(before, torch.ones(2, 2), torch.full((2, 2), 3.0)) == (8, 4)


def test_modes_are_apart():
    reducer = on_device()
    for mode, value in [(Mode.TRAIN, 1.0), (Mode.EVAL, 5.0), (Mode.TRAIN, 2.0)]:
        part = reducer.reduce([(PLAN, torch.full((4,), value, device=DEVICE))], mode)
        found = [captured.summary.update_l1 for _, captured in part.finish()]
    assert found == [4.0]


def test_what_has_no_place_stays_unknown(monkeypatch):
    monkeypatch.setattr(updates, "_MOST_BYTES", 100)
    reducer = on_device()
    plans = [plan_of("a", update=True), plan_of("b", update=True), plan_of("c", update=True)]
    for value in (1.0, 2.0):
        tensors = [torch.full((size,), value, device=DEVICE) for size in (20, 10, 5)]
        found = captured(reducer, *zip(plans, tensors, strict=True))
    update_l1 = {name: each.summary.update_l1 for name, each in found.items()}
    assert update_l1 == {"a": 20, "b": None, "c": 5}


def test_values_that_are_kept_move_too():
    """They are compared on the host, when they have arrived."""
    plan = plan_of(update=True, raw=True)
    assert moved(torch.ones(4), torch.full((4,), 3.0), plan=plan) == (8, 4)

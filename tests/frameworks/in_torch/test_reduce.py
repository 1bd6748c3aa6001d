"""The numbers of tensors reduced on a device are those of ``summarize`` on the host."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tocsin.tensors import Captured, summarize
from tocsin_hooks.capture import capture
from tocsin_hooks.torch.reductions import packing
from tocsin_hooks.torch.reductions.reduce import Reducer

from tests.frameworks.in_torch.reducing import (
    DEVICE,
    assert_alike,
    captured,
    on_device,
    plan_of,
    summary_on_device,
)

NAN, INF = math.nan, math.inf
FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool]
COMPLEX = [torch.complex64, torch.complex128]


def of_host(tensor, **options):
    tensor = tensor.detach().resolve_conj()
    known = tensor if tensor.dtype != torch.bfloat16 else tensor.float()
    return summarize(known.numpy(), **options)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, *COMPLEX], ids=str)
@pytest.mark.parametrize("shape", [(), (1,), (0,), (0, 3), (5,), (3, 7, 2), (130, 257)])
def test_types_and_shapes(dtype, shape):
    generator = torch.Generator().manual_seed(len(shape))
    tensor = (torch.randn(shape, generator=generator) * 20).to(dtype)
    found = captured(on_device(), (plan_of(), tensor.to(DEVICE)))["w"]
    assert_alike(found.summary, of_host(tensor, fingerprint=found.summary.fingerprint is not None))
    assert found.dtype == str(dtype).removeprefix("torch.")
    shown = found.shape if found.value is None else found.value.shape
    assert shown == shape


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(
    "numbers",
    [
        [NAN, INF, -INF, -INF, 0.0, 6.0],
        [NAN, NAN, NAN],
        [INF, INF],
        [-INF, 1.0, 2.0],
        [0.0, -0.0, 0.0],
        [3.0, -4.0],
        [7.0, 7.0, 7.0, NAN],
        [60000.0] * 5,
        [1e-7, -3e-7],
    ],
)
def test_numbers(numbers, dtype):
    tensor = torch.tensor(numbers, dtype=dtype)
    assert_alike(summary_on_device(tensor), of_host(tensor, fingerprint=False))


@pytest.mark.parametrize(
    "numbers",
    [
        [1e300, -1e300],
        [1.7e308, 1.7e308],
        [1.7e308, 1.7e308, -1.7e308, INF],
        [3e-200, 4e-200],
        [5e-324, 0.0, -1e-323],
        [1e300, 1e-300, NAN],
    ],
)
def test_magnitudes_whose_squares_are_no_doubles(numbers):
    tensor = torch.tensor(numbers, dtype=torch.float64)
    assert_alike(summary_on_device(tensor), of_host(tensor, fingerprint=False))


def test_a_small_spread_around_a_large_mean():
    tensor = torch.tensor([1e30, 1.0000001e30, 1e30], dtype=torch.float32)
    near = 1e4 + torch.randn(70_000, dtype=torch.float64) * 1e-6
    for each in (tensor, near):
        assert_alike(summary_on_device(each), of_host(each, fingerprint=False))


def test_rows_of_very_different_magnitude():
    """A tensor is reduced in rows; each may have a scale of its own, or nothing finite."""
    width = 1 << 14
    tensor = torch.cat(
        [torch.full((width,), value, dtype=torch.float64) for value in (1e200, 1e-200, NAN, -3.0)]
    )
    assert_alike(summary_on_device(tensor), of_host(tensor, fingerprint=False))


@settings(deadline=None, max_examples=150)
@given(
    hnp.arrays(
        st.sampled_from([np.float64, np.float32, np.float16]),
        hnp.array_shapes(min_dims=0, max_side=6),
        elements={"allow_subnormal": False},
    )
)
def test_any_numbers(array):
    tensor = torch.from_numpy(array)
    found = summary_on_device(tensor)
    assert_alike(found, summarize(array, fingerprint=found.fingerprint is not None))


@pytest.fixture
def small_chunks(monkeypatch):
    """Chunks of two rows: tensors and groups of them span several."""
    monkeypatch.setattr(packing, "CHUNK", 1 << 15)


def _strided():
    base = torch.randn(3, 60, 50, 24)
    return {
        "transposed": base[0, 0].t(),
        "channels last": base.contiguous(memory_format=torch.channels_last),
        "every second": base[..., ::2],
        "turned": base.permute(3, 1, 0, 2),
        "expanded": torch.randn(1, 300).expand(400, 300),
        "one large part": base[:1, :, :, :].permute(0, 3, 1, 2),
        "column": base.view(-1, 4)[:, 1],
    }


@pytest.mark.parametrize("name", _strided())
def test_scattered_elements(name, small_chunks):
    tensor = _strided()[name]
    wished = {"fingerprint": True, "update": True}
    found = summary_on_device(tensor, tensor * 2, **wished)
    right = captured(Reducer(), (plan_of(fingerprint=True), tensor))["w"].summary
    assert_alike(found, _with_update(tensor, right))


def _with_update(tensor, summary):
    reducer, plan = Reducer(), plan_of(fingerprint=True, update=True)
    captured(reducer, (plan, tensor * 2))
    both = captured(reducer, (plan, tensor))["w"].summary
    assert both.update_l2 > 0
    assert both.fingerprint == summary.fingerprint
    return both


def test_many_tensors_at_once(small_chunks):
    sizes = [1, 5, 1 << 14, (1 << 14) + 1, 100_000, 3, 0, 40_000, 16]
    tensors = {
        f"{dtype}-{at}": (torch.randn(size) * 9).to(dtype)
        for at, size in enumerate(sizes)
        for dtype in (torch.float32, torch.bfloat16, torch.int32, torch.float64)
    }
    pairs = [(plan_of(name), tensor.to(DEVICE)) for name, tensor in tensors.items()]
    found = captured(on_device(), *pairs)
    assert set(found) == set(tensors)
    for name, tensor in tensors.items():
        alone = found[name].summary
        assert_alike(alone, of_host(tensor, fingerprint=alone.fingerprint is not None))


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, *COMPLEX], ids=str)
@pytest.mark.parametrize("size", [2, 500, 513, 4096, 4097, 16_385, 70_003])
def test_fingerprints(dtype, size):
    tensor = (torch.randn(size) * 20).to(dtype)
    found = summary_on_device(tensor, fingerprint=True).fingerprint
    assert found == of_host(tensor).fingerprint


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool], ids=str)
def test_on_the_host_the_numbers_are_those_of_hook_save(dtype):
    tensor = torch.randn(40, 50).to(dtype).t()
    plan = plan_of(fingerprint=True, reductions=("mean", "abs_max"))
    found = captured(Reducer(), (plan, tensor))
    right = capture(plan, tensor)
    assert [_comparable(each) for each in found.values()] == [_comparable(each) for each in right]


def _comparable(each: Captured):
    value = None if each.value is None else np.asarray(each.value).tolist()
    return each.name, each.shape, each.dtype, each.role, each.kind, each.summary, value

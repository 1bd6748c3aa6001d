"""What rules ask for beyond the plain numbers is on a device what ``detailed`` says on the host."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tocsin.model import Detail
from tocsin.tensors import REDUCTIONS, detailed, reduced, summarize
from tocsin_hooks.capture import summary_of
from tocsin_hooks.plan import Wish
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


def of_host(tensor, detail):
    """The plain numbers, and those of the detail."""
    array = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
    fields = msgspec.structs.asdict(detailed(array, detail))
    known = {name: value for name, value in fields.items() if value is not None}
    return msgspec.structs.replace(summarize(array, fingerprint=array.size == 1), **known)


DETAILS = [
    Detail(quantiles=(0.0, 0.05, 0.5, 0.95, 1.0)),
    Detail(active=(0.0, None)),
    Detail(active=(None, 0.5)),
    Detail(active=(-0.1, 0.1)),  # bounds that no short float has
    Detail(active=(None, None)),
    Detail(active=(-1.0, 1.0), unit_axis=0),
    Detail(active=(-1.0, 1.0), unit_axis=-2),
    Detail(active=(-1.0, 1.0), unit_axis=5),
    Detail(channel_axis=0),
    Detail(channel_axis=1),
    Detail(channel_axis=-1),
    Detail(channel_axis=4),
    Detail(quantiles=(0.25,), active=(0.0, None), channel_axis=1),
]


@pytest.fixture(params=[1 << 21, 64])
def chunks(request, monkeypatch):
    """Whole tensors at a time, and tensors in many parts."""
    monkeypatch.setattr("tocsin_hooks.torch.reductions.packing.CHUNK", request.param)
    monkeypatch.setattr("tocsin_hooks.torch.reductions.detail.CHUNK", request.param)


@pytest.mark.parametrize("detail", DETAILS)
@pytest.mark.parametrize("shape", [(7,), (6, 5), (3, 4, 5), (2, 3, 5, 4), (1, 6, 1, 30)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int16])
def test_details(detail, shape, dtype, chunks):
    tensor = torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(dtype)
    assert_alike(summary_on_device(tensor, details=(detail,)), of_host(tensor, detail))


@pytest.mark.parametrize("detail", DETAILS)
@pytest.mark.parametrize(
    "numbers",
    [
        [[NAN, INF], [-INF, 2.0]],
        [[NAN, INF], [-INF, NAN]],
        [[INF, 1.0, 1.0], [3.0, 2.0, NAN]],
        [[1.7e308, -1.7e308], [0.0, 1.0]],
        [[0.1, -0.1, 0.5, 1.0, -1.0]],
    ],
)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_odd_numbers(detail, numbers, dtype):
    tensor = torch.tensor(numbers, dtype=dtype)
    assert_alike(summary_on_device(tensor, details=(detail,)), of_host(tensor, detail))


@settings(deadline=None, max_examples=150)
@given(
    hnp.arrays(
        st.sampled_from([np.float64, np.float32]),
        hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=5),
        elements={"min_value": -1024, "max_value": 1024, "allow_subnormal": False},
    ),
    st.builds(
        Detail,
        st.lists(st.floats(0, 1), max_size=3).map(tuple),
        st.none() | st.tuples(st.none() | st.floats(-9, 0), st.none() | st.floats(0, 9)),
        st.none() | st.integers(-4, 4),
    ),
)
def test_any_detail(array, detail):
    tensor = torch.from_numpy(array)
    assert_alike(summary_on_device(tensor, details=(detail,)), of_host(tensor, detail))


@pytest.mark.parametrize(
    ("shape", "detail"),
    [
        ((65_536,), Detail(active=(0.0, None))),
        ((65_537,), Detail(active=(0.0, None))),
        ((2, 4096), Detail(channel_axis=1)),
        ((2, 4097), Detail(channel_axis=1)),
        ((1200, 1000), Detail(quantiles=(0.1, 0.5))),  # a sample of it
        ((1_000_000,), Detail(quantiles=(0.9,))),
    ],
)
def test_limits(shape, detail):
    tensor = torch.randn(shape)
    assert_alike(summary_on_device(tensor, details=(detail,)), of_host(tensor, detail))


@pytest.mark.parametrize(
    "tensor",
    [
        torch.randn(4, 6, 5, 3).contiguous(memory_format=torch.channels_last),
        torch.randn(30, 40).t(),
        torch.randn(2, 40)[:, ::3],
        torch.randn(1, 40).expand(50, 40),
    ],
)
def test_scattered_elements(tensor, chunks):
    for detail in DETAILS:
        assert_alike(summary_on_device(tensor, details=(detail,)), of_host(tensor, detail))


def test_of_details_that_cannot_stand_side_by_side_the_first_counts():
    details = (
        Detail(active=(0.0, None)),
        Detail(active=(-1.0, 1.0)),
        Detail(quantiles=(0.5,), channel_axis=0),
        Detail(channel_axis=1),
    )
    tensor = torch.randn(6, 9)
    found = summary_on_device(tensor, details=details)
    assert_alike(found, summary_of(tensor.numpy(), Wish(details)))
    assert (found.bounds.low, found.channels.axis) == (0.0, 0)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.int32])
@pytest.mark.parametrize("size", [0, 1, 2, 700])
def test_reductions(reduction, dtype, size, chunks):
    tensor = (torch.randn(size, generator=torch.Generator().manual_seed(2)) * 3).to(dtype)
    found = captured(on_device(), (plan_of("fc:0", reductions=(reduction,)), tensor.to(DEVICE)))
    on_host = captured(Reducer(fail), (plan_of("fc:0", reductions=(reduction,)), tensor))
    name = f"smdebug/reductions/{reduction}/fc"
    assert set(found) == set(on_host) == {"fc:0", name}
    assert found[name].value.dtype == on_host[name].value.dtype
    expected = pytest.approx(float(on_host[name].value), rel=1e-6, abs=1e-12, nan_ok=True)
    assert float(found[name].value) == expected


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("numbers", [[1.0, NAN, 2.0], [1.0, INF, -2.0], [INF, -INF, 0.0]])
def test_reductions_of_what_is_not_finite(reduction, numbers):
    tensor = torch.tensor(numbers, dtype=torch.float64)
    found = captured(on_device(), (plan_of(reductions=(reduction,)), tensor.to(DEVICE)))
    expected = reduced(tensor.numpy(), reduction)
    value = float(found[f"smdebug/reductions/{reduction}/w"].value)
    assert value == pytest.approx(expected, nan_ok=True)

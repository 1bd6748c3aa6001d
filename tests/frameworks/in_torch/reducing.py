"""Tensors captured by both paths of the reducer, and how their numbers are compared."""

from __future__ import annotations

import math

import msgspec
import pytest
import torch
from tocsin_hooks.plan import CapturePlan, Saved, Wish
from tocsin_hooks.torch.reductions.reduce import Reducer, gathered

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
"""Where the path for devices is tried; it takes tensors of the host as well."""


def plan_of(name="w", *, raw=False, reductions=(), collections=("weights",), **wish):
    return CapturePlan(Saved(name, collections), Wish(**wish), raw=raw, reductions=reductions)


def fail(what, error):
    raise AssertionError(what) from error


def on_device(trouble=fail):
    return Reducer(trouble, device=True)


def captured(reducer, *pairs):
    """All that one step of some tensors gives, by name."""
    return {each.name: each for _, each in gathered([reducer.reduce(pairs)]).finish()}


def summary_on_device(tensor, *before, **wish):
    """The summary by the path for devices; ``before`` are the values at earlier saves."""
    reducer, plan = on_device(), plan_of(**wish)
    for earlier in before:
        captured(reducer, (plan, earlier.to(DEVICE)))
    return captured(reducer, (plan, tensor.to(DEVICE)))["w"].summary


def assert_alike(found, right):
    """Equal but for what another order of summation changes in float64."""
    rounding = 1e-14 * max(abs(right.min or 0), abs(right.max or 0))
    close = {
        "mean": _near(right.mean, (right.abs_mean or 0) * 1e-13),
        "abs_mean": _near(right.abs_mean),
        "l1": _near(right.l1),
        "l2": _near(right.l2),
        "update_l1": _near(right.update_l1),
        "update_l2": _near(right.update_l2),
        "variance": _near(right.variance, right.size * min(rounding, 1e150) ** 2),
        "quantiles": right.quantiles and pytest.approx(dict(right.quantiles), rel=1e-12, abs=0),
        "channels": None,
    }
    assert msgspec.structs.replace(found, **dict.fromkeys(close)) == msgspec.structs.replace(
        right, **dict.fromkeys(close)
    )
    for field, expected in close.items():
        if field != "channels":
            assert getattr(found, field) == expected, field
    assert (found.channels is None) == (right.channels is None)
    if right.channels is not None:
        assert found.channels.axis == right.channels.axis
        assert list(found.channels.mean) == [_near(m, 1e-13) for m in right.channels.mean]
        assert list(found.channels.variance) == [_near(v, 1e-13) for v in right.channels.variance]


def _near(number, absolute=0.0):
    if number is None or not math.isfinite(absolute):
        return number
    return pytest.approx(number, rel=1e-11, abs=absolute)

from __future__ import annotations

import pytest
from tocsin.tensors import base_name, parse_reduction, reduction_name


@pytest.mark.parametrize(
    ("name", "reduction", "base"),
    [
        ("smdebug/reductions/min/fc.weight", "min", "fc.weight"),
        ("smdebug/reductions/abs_l2/gradient/fc.weight", "abs_l2", "gradient/fc.weight"),
        ("smdebug/reductions/mean/dense/kernel:0", "mean", "dense/kernel:0"),
    ],
)
def test_reductions(name, reduction, base):
    assert parse_reduction(name) == (reduction, base)
    assert base_name(name) == base


@pytest.mark.parametrize(
    "name", ["fc.weight", "reductions/min/fc", "smdebug/reductions/min", "smdebug/reductions/min/"]
)
def test_other_tensors(name):
    assert parse_reduction(name) is None
    assert base_name(name) == name


def test_colons_are_removed_as_smdebug_does():
    assert reduction_name("abs_mean", "a:0/b:12") == "smdebug/reductions/abs_mean/a/b"

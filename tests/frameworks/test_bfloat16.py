"""Arrays of the package ml_dtypes, which JAX and TensorFlow use, go in and come out."""

from __future__ import annotations

import pytest

from tests.frameworks.environment import answer

SHAPES = {
    "matrix": [2, 2],
    "scalar": [1],
    "0-d": [],
    "empty": [0, 3],
    "strided": [4],
    "odd": [3],
}


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    return answer("bfloat16", "write_bfloat16.py", tmp_path_factory.mktemp("run"))


@pytest.mark.parametrize("name", SHAPES)
def test_round_trip(seen, name):
    found = seen[name]
    assert (found["stored as"], found["read as"]) == ("bfloat16", "float32")
    assert (found["shape"], found["equal"]) == (SHAPES[name], True)


def test_summaries(seen):
    matrix, odd = seen["matrix"]["summary"], seen["odd"]["summary"]
    assert (matrix["min"], matrix["max"], matrix["zeros"]) == (-2.0, 3.140625, 1)
    assert matrix["mean"] == pytest.approx((1.5 - 2.0 + 3.140625) / 4)
    assert (odd["nan"], odd["posinf"], odd["mean"]) == (1, 1, 1.0)
    assert seen["scalar"]["summary"]["max"] == 2.5
    assert seen["update"] == [6.0, pytest.approx(14**0.5)]


def test_details(seen):
    wide, narrow = seen["details"]
    assert wide["units"] == 2
    assert narrow == wide

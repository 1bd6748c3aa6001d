"""Attributes survive JSON as they were, or are refused."""

from __future__ import annotations

import json
from collections import Counter, OrderedDict, defaultdict, deque
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tocsin.custom.attributes import MOST_DEPTH, NotPlain, decode, encode, restored
from tocsin.model import Mode

VALUES = [
    None,
    True,
    0,
    -(2**62),
    1.5,
    "ü",
    [],
    [1, [2.0, None]],
    {},
    {"a": {"b": [1]}},
    {1: "int key", (1, 2): "tuple key", Mode.EVAL: 3},
    {"$": "array"},
    (1, (2, "x")),
    {1, 2},
    frozenset({"a"}),
    deque([1, 2], maxlen=2),
    deque(),
    Mode.TRAIN,
    float("inf"),
    -float("inf"),
    [float("nan")],
    np.float32(1.1),
    np.bool_(True),
    np.int64(2**62),
    {"w": np.arange(6, dtype=np.float16).reshape(2, 3)},
]


def same(left: Any, right: Any) -> bool:
    if type(left) is not type(right):
        return False
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and np.array_equal(left, right)
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple | deque):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right) or (left != left and right != right)


def through_json(value: Any) -> Any:
    return decode(json.loads(json.dumps(encode(value), allow_nan=False)))


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_round_trip(value: Any) -> None:
    assert same(through_json(value), value)


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", ">i4", "<i8", "f2", ">f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (2, 3, 4)])
def test_arrays(dtype: str, shape: tuple[int, ...]) -> None:
    value = np.arange(np.prod(shape, dtype=int)).astype(dtype).reshape(shape)
    found = through_json(value)
    assert np.array_equal(found, value)
    assert found.shape == shape
    assert found.dtype == value.dtype.newbyteorder("=")
    assert found.flags.writeable


def test_views_of_arrays_come_back_as_arrays_of_their_own() -> None:
    value = np.arange(12.0).reshape(3, 4)
    assert np.array_equal(through_json(value.T[::2]), value.T[::2])


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.tuples(inner, inner)
            | st.dictionaries(st.text() | st.integers(-9, 9), inner)
        ),
        max_leaves=10,
    )
)
def test_anything_plain(value: Any) -> None:
    assert same(through_json(value), value)


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (object(), "object"),
        (lambda: 1, "function"),
        (b"bytes", "bytes"),
        (2**64, "int"),
        (np.array(["a"]), "dtype <U1"),
        (np.array([object()]), "dtype object"),
        ([1, {"a": object()}], "object"),
    ],
)
def test_what_is_not_plain_is_refused(value: Any, named: str) -> None:
    with pytest.raises(NotPlain, match=named):
        encode(value)


def test_depth_is_bounded() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(NotPlain, match=f"more than {MOST_DEPTH} deep"):
        encode(endless)


@pytest.mark.parametrize(
    "data",
    [
        {"$": "pickle", "value": ""},
        {"$": "array", "dtype": "O", "shape": [1], "base64": "AAAAAAAAAAA="},
        {"$": "array", "dtype": "<f8", "shape": [9999999], "base64": "AAAA"},
        {"$": "array", "dtype": "<f8", "shape": [-1], "base64": ""},
        {"$": "array", "dtype": "<f8", "shape": [1], "base64": "?"},
    ],
)
def test_what_was_never_encoded_is_refused(data: Any) -> None:
    with pytest.raises(ValueError):
        decode(data)


def test_the_constructor_says_what_a_dictionary_is() -> None:
    lists: defaultdict[int, list[int]] = defaultdict(list, {1: [2]})
    found = restored(encode(lists), defaultdict(list))
    found[3].append(4)
    assert found == {1: [2], 3: [4]}
    assert restored(encode(Counter("aab")), Counter()).most_common(1) == [("a", 2)]
    assert type(restored(encode(OrderedDict(a=1)), OrderedDict())) is OrderedDict

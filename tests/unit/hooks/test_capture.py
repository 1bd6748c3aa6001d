from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tocsin.model import Detail, Mode, Role
from tocsin.tensors import LocalStorage, read_values, write_step
from tocsin_hooks.capture import as_array, capture, summary_of
from tocsin_hooks.plan import CapturePlan, Saved, Wish


class TorchLike:
    """What a tensor of PyTorch looks like from here."""

    def __init__(self, value: Any, *, bfloat16: bool = False) -> None:
        self._value = np.asarray(value)
        self._bfloat16 = bfloat16
        self.dtype = "torch.bfloat16" if bfloat16 else f"torch.{self._value.dtype}"

    def detach(self) -> TorchLike:
        return self

    def cpu(self) -> TorchLike:
        return self

    def float(self) -> TorchLike:
        return TorchLike(self._value.astype(np.float32))

    def numpy(self) -> np.ndarray[Any, Any]:
        if self._bfloat16:
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self._value


class ArrayLike:
    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
        return np.array([1, 2], np.int16)


@pytest.mark.parametrize(
    ("value", "dtype", "shape"),
    [
        (3, "int64", (1,)),
        (0.5, "float64", (1,)),
        (True, "bool", (1,)),
        (np.float32(0.5), "float32", (1,)),
        (np.array(0.5, np.float16), "float16", ()),
        ([[1.0, 2.0]], "float64", (1, 2)),
        ((), "float64", (0,)),
        (np.zeros((2, 0), np.uint8), "uint8", (2, 0)),
        (np.zeros(3, ">f4"), "float32", (3,)),
        (np.zeros(3, np.longdouble), "float64", (3,)),
        (np.zeros(3, np.complex64), "complex64", (3,)),
        (ArrayLike(), "int16", (2,)),
        (TorchLike([1.0, 2.0]), "float64", (2,)),
        (TorchLike([1.0, 2.0], bfloat16=True), "float32", (2,)),
        ("adam", "<U4", (1,)),
        (np.array([b"a", b"bc"]), "<U2", (2,)),
    ],
)
def test_values_become_arrays(value: Any, dtype: str, shape: tuple[int, ...]) -> None:
    array = as_array(value)
    assert (array.dtype, array.shape) == (np.dtype(dtype), shape)


@pytest.mark.parametrize("value", [[1.5, -2.0, 3.140625], 2.5, [], [float("nan"), 1.0]])
def test_bfloat16_is_kept_as_its_bits_and_read_as_numbers(value: Any, tmp_path: Path) -> None:
    (captured,) = capture(
        CapturePlan(Saved("w", ("weights",)), raw=True), TorchLike(value, bfloat16=True)
    )
    numbers = np.asarray(value, np.float32)
    assert isinstance(captured.value, np.ndarray)
    assert (captured.value.dtype, captured.dtype) == (np.uint16, "bfloat16")
    storage = LocalStorage(tmp_path)
    index = write_step(storage, step=0, mode=Mode.TRAIN, mode_step=0, tensors=[captured])
    assert index is not None
    assert index.entries[0].dtype == "bfloat16"
    read = read_values(storage, index)["w"]
    assert isinstance(read, np.ndarray)
    assert (read.dtype, read.shape) == (np.float32, numbers.shape)
    np.testing.assert_array_equal(read, numbers)


@pytest.mark.parametrize(
    "value",
    [object(), None, {"a": 1}, [[1], [1, 2]], np.array(["2026"], "M8[D]"), 2**100],
)
def test_what_is_no_array_of_numbers_or_strings_is_refused(value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        as_array(value)


@pytest.mark.parametrize(("name", "kind"), [("", None), ("n" * 5000, None), ("n", "k" * 200)])
def test_names_that_no_reader_accepts_are_refused(name: str, kind: str | None) -> None:
    with pytest.raises(ValueError, match="characters"):
        capture(CapturePlan(Saved(name, ("default",), kind=kind)), 1.0)


@pytest.mark.parametrize(
    ("value", "collections", "raw", "kept"),
    [
        (np.ones(4), ("weights",), False, False),
        (np.ones(4), ("weights",), True, True),
        (np.ones(1), ("weights",), False, True),
        (np.array(1.0), ("weights",), False, True),
        (np.ones(4), ("losses",), False, True),
        (np.ones(4), ("mine", "metrics"), False, True),
        (np.ones(4), ("sm_metrics",), False, True),
        (np.ones(0), ("weights",), False, False),
    ],
)
def test_what_is_small_or_wanted_is_kept(
    value: Any, collections: tuple[str, ...], raw: bool, kept: bool
) -> None:
    (captured,) = capture(CapturePlan(Saved("t", collections), raw=raw), value)
    assert (captured.value is not None) is kept
    assert captured.shape == value.shape
    assert captured.summary is not None
    assert captured.summary.size == value.size


def test_a_captured_value_does_not_follow_the_original() -> None:
    original = np.zeros((2, 2), order="F")
    (captured,) = capture(CapturePlan(Saved("w", ("weights",)), raw=True), original)
    original += 1
    assert np.asarray(captured.value).tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize(
    ("collections", "role", "expected"),
    [
        (("losses",), None, Role.LOSS),
        (("gradients",), None, Role.GRADIENT),
        (("mine",), None, None),
        (("mine", "biases"), None, Role.BIAS),
        (("outputs",), None, Role.PREDICTION),
        (("sm_metrics",), None, Role.METRIC),
        (("relu_output", "outputs"), None, Role.ACTIVATION_OUTPUT),
        (("mine",), Role.WEIGHT, Role.WEIGHT),
        (("losses",), Role.METRIC, Role.METRIC),
    ],
)
def test_the_role_follows_from_the_collection(
    collections: tuple[str, ...], role: Role | None, expected: Role | None
) -> None:
    assert capture(CapturePlan(Saved("t", collections, role)), 1.0)[0].role == expected


def test_quantiles_of_rules_and_of_the_configuration_are_in_one_summary() -> None:
    layer = Detail((0.5,), channel_axis=1)
    wish = Wish((Detail((0.25,)), layer)).with_quantiles((0.0, 0.5))
    summary = summary_of(np.arange(9.0).reshape(3, 3), wish)
    assert summary.quantiles == {"0.0": 0.0, "0.25": 2.0, "0.5": 4.0}
    assert summary.channels is not None
    assert Wish((layer,)).with_quantiles(()) == Wish((layer,))


def test_reductions_are_tensors_of_their_own() -> None:
    plan = CapturePlan(Saved("fc.weight:0", ("weights",)), reductions=("mean", "abs_l2"))
    value = np.array([[3.0, -4.0]], np.float16)
    tensor, mean, norm = capture(plan, value)
    assert (tensor.name, tensor.value) == ("fc.weight:0", None)
    assert mean.name == "smdebug/reductions/mean/fc.weight"
    assert norm.name == "smdebug/reductions/abs_l2/fc.weight"
    assert (float(np.asarray(mean.value)), float(np.asarray(norm.value))) == (-0.5, 5.0)
    assert (np.asarray(mean.value).dtype, np.asarray(mean.value).shape) == (np.float16, ())


@pytest.mark.parametrize(
    ("plan", "nbytes", "kept"),
    [
        (CapturePlan(Saved("t", ("x",)), Wish(values=True)), 1 << 20, True),
        (CapturePlan(Saved("t", ("x",)), Wish(values=True)), (1 << 20) + 1, False),
        (CapturePlan(Saved("t", ("x",)), Wish(values=True), raw=False), 8, False),
        (CapturePlan(Saved("t", ("x",)), raw=True), 1 << 30, True),
        (CapturePlan(Saved("t", ("x",))), 8, False),
        (CapturePlan(Saved("t", ("losses",)), raw=False), 8, True),
    ],
)
def test_whether_values_are_kept(plan: CapturePlan, nbytes: int, kept: bool) -> None:
    assert plan.keeps(2, nbytes) is kept


@pytest.mark.parametrize(
    ("value", "kept"),
    [("text", []), (np.array([3j, 4j]), ["abs_min"]), (np.ones(2), ["min", "abs_min"])],
)
def test_a_reduction_that_there_is_not_costs_nothing_else(value: object, kept: list[str]) -> None:
    plan = CapturePlan(Saved("x", ("mine",)), reductions=("min", "abs_min"))
    names = [captured.name for captured in capture(plan, value)]
    assert names == ["x", *(f"smdebug/reductions/{each}/x" for each in kept)]


def test_a_text_that_cannot_be_written_is_refused_before_it_costs_a_step() -> None:
    with pytest.raises(ValueError, match="surrogates"):
        capture(CapturePlan(Saved("\ud800", ("mine",))), 1.0)
    with pytest.raises(ValueError, match="surrogates"):
        capture(CapturePlan(Saved("text", ("mine",))), "\ud800")

"""bfloat16 is stored as its bits and read as float32."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tocsin.model import Mode
from tocsin.tensors import (
    Captured,
    LocalStorage,
    Unreadable,
    decode_record,
    event_key,
    frames,
    from_bfloat16,
    index_at,
    index_key,
    itemsize,
    read_index,
    read_values,
    write_step,
)

BITS = {1.0: 0x3F80, -2.0: 0xC000, 0.0: 0x0000, np.inf: 0x7F80, 3.140625: 0x4049, 1e-40: 0x0001}
EXACT = {**BITS}
del EXACT[1e-40]


@pytest.fixture
def storage(tmp_path):
    return LocalStorage(tmp_path)


def _write(storage, value, dtype="bfloat16", **options):
    tensors = [Captured("w", value, dtype=dtype)]
    options = {"step": 0, "mode": Mode.TRAIN, "mode_step": 0} | options
    return write_step(storage, tensors=tensors, **options)


def _read(storage):
    return read_values(storage, index_at(storage, 0, "worker_0"))["w"]


@pytest.mark.parametrize(("number", "bits"), EXACT.items())
def test_numbers(number, bits):
    assert from_bfloat16(np.array(bits, np.uint16)) == np.float32(number)


def test_what_is_no_number_stays_so():
    assert np.isnan(from_bfloat16(np.array([0x7FC0, 0xFFFF], np.uint16))).all()


def test_the_upper_half_of_a_float32():
    bits = np.arange(0x10000, dtype=np.uint16)
    assert (from_bfloat16(bits).view(np.uint32) == bits.astype(np.uint32) << 16).all()


@pytest.mark.parametrize("shape", [(), (5,), (1, 5), (0,), (5, 0)])
def test_round_trip(storage, shape):
    bits = np.resize(np.array(list(EXACT.values()), np.uint16), shape)
    _write(storage, bits)
    value = _read(storage)
    assert (value.dtype, value.shape) == (np.float32, shape)
    assert not value.flags.writeable
    np.testing.assert_array_equal(value, from_bfloat16(bits))


def test_what_lies_in_the_files(storage):
    bits = np.array(list(EXACT.values()), np.uint16)
    index = _write(storage, bits)
    (record,) = map(decode_record, frames(storage.read(event_key(0, "worker_0"))))
    assert record.value.dtype == np.uint16
    assert record.value.tolist() == bits.tolist()
    assert index.entries[0].dtype == "bfloat16"
    assert itemsize("bfloat16") == 2


def test_plain_files_hold_uint16(storage):
    _write(storage, np.array([0x3F80], np.uint16), extras=False)
    assert "dtype" not in json.loads(storage.read(index_key(0, "worker_0")))["tensor_payload"][0]
    assert _read(storage).dtype == np.uint16


@pytest.mark.parametrize(
    ("value", "dtype", "stored"),
    [
        (np.array([1], np.uint16), "uint16", "uint16"),
        (np.array([1], np.uint16), None, "uint16"),
        (np.array([1], np.float32), "bfloat16", "float32"),  # named wrongly: it is what it is
        (np.array([1], ">u2"), "bfloat16", "bfloat16"),
    ],
)
def test_what_is_bfloat16(storage, value, dtype, stored):
    assert _write(storage, value, dtype).entries[0].dtype == stored
    expected = np.float32 if stored in ("bfloat16", "float32") else np.uint16
    assert _read(storage).dtype == expected


def test_an_index_that_calls_other_numbers_so(storage):
    index = _write(storage, np.array([1.5], np.float32))
    document = json.loads(storage.read(index_key(0, "worker_0")))
    document["tensor_payload"][0]["dtype"] = "bfloat16"
    storage.write(index_key(0, "worker_0"), json.dumps(document).encode())
    assert index.entries[0].dtype == "float32"
    assert _read(storage).tolist() == [1.5]


def test_a_flipped_bit_is_found(storage):
    index = _write(storage, np.arange(4, dtype=np.uint16))
    key = event_key(0, "worker_0")
    data = bytearray(storage.read(key))
    data[data.index(bytes([2, 0, 3, 0]))] ^= 4
    storage.write(key, bytes(data))
    index = read_index(storage, storage.head(index_key(0, "worker_0")))
    assert isinstance(read_values(storage, index)["w"], Unreadable)

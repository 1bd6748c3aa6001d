from __future__ import annotations

import base64
import json
import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tocsin.contracts import Contract
from tocsin.model import Mode, Severity, TensorSummary
from tocsin.tensors import (
    BadIndex,
    Entry,
    IndexFile,
    LocalStorage,
    Object,
    RunMeta,
    TooLarge,
    decode_index,
    encode_index,
    index_key,
    index_objects,
    parse_index_key,
    read_index,
)
from tocsin.tensors.columns import decode_columns
from tocsin.tensors.index import encode_payloads

EVENT = "events/000000000010/000000000010_worker_0.tfevents"


def _document(**changes):
    meta = {"mode": "TRAIN", "mode_step": 5, "event_file_name": EVENT}
    meta |= changes.pop("meta", {})
    document = {
        "meta": {key: value for key, value in meta.items() if value is not None},
        "tensor_payload": [{"tensorname": "w", "start_idx": 0, "length": 98}],
        "shape_payload": [],
    }
    document |= changes
    return json.dumps({k: v for k, v in document.items() if v is not None}).encode()


def _decode(data):
    return decode_index(data, 10, "worker_0")


def _payload(**changes):
    entry = {"tensorname": "w", "start_idx": 0, "length": 98} | changes
    return _document(tensor_payload=[{k: v for k, v in entry.items() if v is not None}])


def _shapes(*entries):
    return _document(
        shape_payload=[{"tensorname": n, "originalname": n, "shape": s} for n, s in entries]
    )


@pytest.mark.parametrize(
    "bad",
    [
        {"variance": -1.0},
        {"variance": "1"},
        {"mean": "NaN"},
        {"abs_mean": -1e-300},
        {"l2": -1},
        {"mean": "9" * 400},
        {"nan": -1},
        {"size": 10**30},
        {"size": 4.0},
        {"units": 2**53 + 1},
        {"fingerprint": "f" * 65},
        {"quantiles": {"x": 1.0}},
        {"quantiles": {"": 1.0}},
        {"quantiles": {"1.5": 1.0}},
        {"quantiles": {"nan": 1.0}},
        {"quantiles": {f"0.{number}": 1.0 for number in range(1, 1200)}},
        {"bounds": {"below": -1}},
        {"unit_active": "!!!"},
        {"unit_active": "AAAA"},
        {"unit_active": "AQAAAA=="[:7]},
        {"channels": {"axis": 0, "mean": [1.0], "variance": [-1.0]}},
        {"channels": {"axis": 0, "mean": [1.0] * 4097, "variance": []}},
        [],
        "text",
    ],
)
def test_a_summary_that_cannot_be_used_costs_no_other_tensor(bad):
    names = {"bad": bad, "good": {"mean": 1.0}}
    shapes = [
        {"tensorname": n, "originalname": n, "shape": [4], "role": "loss", "summary": summary}
        for n, summary in names.items()
    ]
    index = _decode(_document(shape_payload=shapes))
    entry = index.entry("bad")
    assert (entry.summary, entry.shape, entry.role) == (None, (4,), "loss")
    assert index.entry("good").summary == TensorSummary(mean=1.0)
    assert index.entry("w").length == 98
    assert list(index.refused) == ["bad"]
    assert index.refused["bad"].startswith("its summary cannot be used: ")
    columns = decode_columns(_document(shape_payload=shapes), 10, "worker_0")
    assert columns.numbers[0].tolist()[-1] == 1.0


@pytest.mark.parametrize(
    "good",
    [
        {},
        {"variance": 0, "mean": -1e308, "size": 2**53},
        {"quantiles": {str(q): -1.0 for q in (0.0, 0.05, 1e-05, 1.5e-07, 0.999, 1.0)}},
        {"quantiles": {"0": 1.0, "1": 2.0}},
        {"unit_active": ""},
        *({"unit_active": base64.b64encode(bytes(4 * n)).decode()} for n in range(1, 5)),
        {"channels": {"axis": -1, "mean": [None, 1.0], "variance": [None, 0.0]}},
    ],
)
def test_a_summary_within_its_bounds_is_taken(good):
    index = _decode(_payload(summary=good))
    assert index.refused == {}
    assert index.entry("w").summary is not None


def test_reasons_are_limited():
    shapes = [
        {"tensorname": f"w{n}", "originalname": "w", "shape": [], "summary": {"nan": -1}}
        for n in range(1000)
    ]
    index = _decode(_document(shape_payload=shapes))
    assert len(index.entries) == 1001
    assert len(index.refused) == 100


def test_what_smdebug_writes():
    index = _decode(_document())
    entry = Entry("w", 0, 98)
    assert index == IndexFile(10, "worker_0", Mode.TRAIN, 5, EVENT, None, (entry,))
    assert index.entry("w") == entry
    assert index.entry("v") is None


def test_shapes_alone_need_no_event_file():
    data = _document(meta={"event_file_name": None}, tensor_payload=[], shape_payload=None)
    assert _decode(data).entries == ()
    data = _document(
        meta={"event_file_name": None},
        tensor_payload=None,
        shape_payload=[{"tensorname": "s", "originalname": "o", "shape": [3, 4]}],
    )
    index = _decode(data)
    assert index.event_key is None
    assert index.entries == (Entry("s", shape=(3, 4), original_name="o"),)


def test_a_shape_beside_a_record_keeps_the_record():
    assert _decode(_shapes(("w", [4]), ("s", []))).entries == (
        Entry("w", 0, 98, shape=(4,)),
        Entry("s", shape=(), original_name="s"),
    )


def test_the_last_of_a_name_wins():
    entries = [{"tensorname": "w", "start_idx": i, "length": 10} for i in (0, 10, 20)]
    assert _decode(_document(tensor_payload=entries)).entries == (Entry("w", 20, 10),)
    assert _decode(_shapes(("s", [1]), ("s", [2]))).entry("s").shape == (2,)


def test_our_extra_keys():
    summary = {"size": 4, "l2": 2.0, "quantiles": {"0.05": 1}, "min": None}
    extra = {"dtype": "float32", "shape": [4], "role": "weight", "kind": "dense", "crc32": 7}
    meta = {"tocsin": 1, "run_id": "r", "prev_step": 4, "resumed_from": 2, "started": 1.5}
    tensors = [
        {"tensorname": "w", "start_idx": 0, "length": 98, "summary": summary, "new": 1, **extra}
    ]
    index = _decode(_document(meta=meta, tensor_payload=tensors))
    assert index.meta == RunMeta("r", 4, 2, started=1.5)
    known = TensorSummary(size=4, l2=2.0, quantiles={"0.05": 1.0})
    assert index.entries == (Entry("w", 0, 98, (4,), "float32", "weight", "dense", 7, known),)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b"{", "truncated"),
        (_document()[:-1], "truncated"),
        (_document() + _document(), "malformed"),  # appended to a stale temporary file
        (b"not json", "malformed"),
        (b"\xff\xfe", "malformed"),
        (b"[]", "Expected `object`"),
        (b"{}", "missing required field `meta`"),
        (b'{"z":' + b"[" * 200_000, "recursion"),
        (_document(meta={"mode": "WARMUP"}), "mode 'WARMUP' is unknown"),
        (_document(meta={"mode": None}), "mode"),
        (_document(meta={"mode_step": -1}), "mode_step"),
        (_document(meta={"mode_step": 1.5}), "mode_step"),
        (_document(meta={"mode_step": "5"}), "mode_step"),
        (_document(meta={"mode_step": 10**30}), "mode_step"),
        (_document(meta={"event_file_name": "../../other/x.tfevents"}), "event_file_name"),
        (_document(meta={"event_file_name": "/etc/passwd"}), "event_file_name"),
        (_document(meta={"event_file_name": 1}), "event_file_name"),
        (_document(meta={"event_file_name": None}), "no event_file_name"),
        (_document(meta={"run_id": "r" * 200, "tocsin": 1}), "run_id"),
        (_document(tensor_payload=None, shape_payload=None), "neither"),
        (_document(tensor_payload={}), "tensor_payload"),
        (_document(tensor_payload=[{}]), "tensorname"),
        (_document(tensor_payload=[{"tensorname": "w"}] * 100_001), "more than 100,000 tensors"),
        (
            _document(
                tensor_payload=[
                    {"tensorname": name, "start_idx": 0, "length": 80} for name in "abc"
                ]
            ),
            "records overlap: 240 bytes of them lie within 80",
        ),
        (_payload(start_idx=-1), "start_idx"),
        (_payload(start_idx=None), "start_idx"),
        (_payload(length=None), "length"),
        (_payload(length=2**60), "length"),
        (_payload(length=True), "length"),
        (_payload(tensorname=""), "tensorname"),
        (_payload(tensorname="n" * 5000), "tensorname"),
        (_payload(tensorname=5), "tensorname"),
        (_payload(shape=[1] * 33), "shape"),
        (_payload(dtype="f" * 1000), "dtype"),
        (_shapes(("s", [-1])), "shape"),
        (_shapes(("s", None)), "has no shape"),
        (_shapes(("s", "4")), "shape"),
    ],
)
def test_damage_is_refused_with_a_reason(data, reason):
    with pytest.raises(BadIndex, match=reason) as refused:
        _decode(data)
    assert "\n" not in str(refused.value)


@given(st.binary(max_size=60))
def test_any_bytes_are_refused(data):
    with pytest.raises(BadIndex):
        _decode(data)


_names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)
_numbers = st.none() | st.integers(0, 2**53)
_shape = st.none() | st.lists(st.integers(0, 2**40), max_size=5).map(tuple)
_words = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
_summaries = st.none() | st.builds(
    TensorSummary,
    size=_numbers,
    mean=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    fingerprint=_words,
)
_contracts = st.none() | st.builds(
    Contract, st.just("mine.price"), st.sampled_from(Severity), _names, _names
)
_entries = st.one_of(
    st.builds(
        Entry,
        _names,
        st.just(0),
        st.integers(0, 2**49),
        _shape,
        _words,
        _words,
        _words,
        _numbers,
        _summaries,
    ),
    st.builds(
        Entry,
        _names,
        st.none(),
        st.none(),
        _shape.filter(lambda s: s is not None),
        _words,
        _words,
        _words,
        st.none(),
        _summaries,
        _names,
        contract=_contracts,
    ),
)
_earlier = st.none() | st.integers(0, 9)
_metas = st.none() | st.builds(RunMeta, st.text("abc-", max_size=36), _earlier, _numbers)


@given(
    st.lists(_entries, max_size=6, unique_by=lambda entry: entry.name),
    st.sampled_from(Mode),
    st.integers(0, 2**53),
    _metas,
)
def test_round_trip(entries, mode, mode_step, meta):
    recorded = [entry for entry in entries if entry.start is not None]
    apart = [
        msgspec.structs.replace(entry, start=number * 2**49)  # records do not overlap
        for number, entry in enumerate(recorded)
    ]
    entries = [*apart, *(entry for entry in entries if entry.start is None)]
    index = IndexFile(10, "worker_0", mode, mode_step, EVENT, meta, tuple(entries))
    assert _decode(encode_index(index)) == index
    plain = _decode(encode_index(index, extras=False))
    assert plain.meta is None
    assert [(e.name, e.start, e.length, e.summary) for e in plain.entries] == [
        (e.name, e.start, e.length, None) for e in entries
    ]


def test_what_is_not_finite_becomes_null():
    summary = TensorSummary(mean=math.nan, max=math.inf, min=1.0)
    index = IndexFile(0, "w", Mode.TRAIN, 0, None, None, (Entry("t", shape=(), summary=summary),))
    document = json.loads(encode_index(index), parse_constant=pytest.fail)
    expected = {"mean": None, "max": None, "min": 1.0}
    assert document["shape_payload"][0]["summary"] == expected


def test_numbers_of_numpy_are_numbers():
    summary = TensorSummary(mean=np.float32(0.5), size=np.int64(3), max=np.float64(math.nan))
    index = IndexFile(0, "w", Mode.TRAIN, 0, None, None, (Entry("t", shape=(), summary=summary),))
    document = json.loads(encode_index(index))
    assert document["shape_payload"][0]["summary"] == {"size": 3, "max": None, "mean": 0.5}


def test_a_tensor_is_in_one_payload_only():
    entries = (Entry("raw", 0, 98, shape=(4,), dtype="float32"), Entry("shaped", shape=(2,)))
    document = json.loads(encode_index(IndexFile(0, "w", Mode.TRAIN, 0, EVENT, None, entries)))
    assert [e["tensorname"] for e in document["tensor_payload"]] == ["raw"]
    assert [e["tensorname"] for e in document["shape_payload"]] == ["shaped"]


def test_read_index(tmp_path):
    storage = LocalStorage(tmp_path)
    storage.write(index_key(10, "worker_0"), _document())
    (found,) = storage.list("index/")
    assert read_index(storage, found) == _decode(_document())
    with pytest.raises(BadIndex, match="key"):
        read_index(storage, Object("index/other.json", 1, 0.0))


def test_an_index_has_a_size(tmp_path):
    storage = LocalStorage(tmp_path)
    key = index_key(10, "worker_0")
    storage.write(key, b"")
    with (tmp_path / key).open("r+b") as sparse:
        sparse.truncate(64 * 1024 * 1024 + 1)
    with pytest.raises(TooLarge):
        read_index(storage, storage.head(key))


STEPS = [0, 999, 1000, 10**11 - 1, 10**11, 5 * 10**11, 10**12 - 1, 10**12, 2 * 10**13, 10**17]


@pytest.mark.parametrize("after", [-1, 0, 1, 10**11 - 1, 10**11, 10**12 - 1, 10**13, 10**18 - 1])
def test_index_files_are_listed_in_the_order_of_steps(tmp_path, after):
    """Whatever the order of their names is."""
    storage = LocalStorage(tmp_path)
    for step in STEPS:
        for worker in ("worker_0", "worker_1"):
            storage.write(index_key(step, worker), b"")
    storage.write("index/000000000/notes.txt", b"")
    found = [parse_index_key(found.key) for found in index_objects(storage, after)]
    expected = [(step, f"worker_{n}") for step in STEPS if step > after for n in (0, 1)]
    assert found == expected


def test_the_listing_of_index_files_is_lazy(tmp_path, monkeypatch):
    storage = LocalStorage(tmp_path)
    for step in (0, 1000, 2000):
        storage.write(index_key(step, "worker_0"), b"")
    listed = []
    walk = LocalStorage._walk
    monkeypatch.setattr(
        LocalStorage,
        "_walk",
        lambda s, folder, *rest: listed.append(folder) or walk(s, folder, *rest),
    )
    next(index_objects(storage, 0))
    assert listed == ["index/", "index/000000000/", "index/000000001/"]


_texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)


@given(
    st.lists(st.tuples(_texts, st.integers(0, 2**53), st.integers(0, 2**53)), max_size=4),
    st.lists(st.tuples(_texts, st.none() | _texts, st.lists(st.integers(0, 9))), max_size=4),
    st.booleans(),
)
def test_plain_files_are_as_pythons_json_has_them(recorded, shaped, extras):
    """smdebug writes with json.dumps; without values of ours, so do we."""
    index = IndexFile(1, "w", Mode.EVAL, 2, EVENT, None, ())
    document = {
        "meta": {"mode": "EVAL", "mode_step": 2, "event_file_name": EVENT},
        "tensor_payload": [
            {"tensorname": name, "start_idx": start, "length": length}
            for name, start, length in recorded
        ],
        "shape_payload": [
            {"tensorname": name, "originalname": original or name, "shape": shape}
            for name, original, shape in shaped
        ],
    }
    data = encode_payloads(
        index,
        [Entry(name, start, length) for name, start, length in recorded],
        [Entry(n, shape=tuple(shape), original_name=original) for n, original, shape in shaped],
        extras=extras,
    )
    assert data == json.dumps(document).encode()

from __future__ import annotations

import json
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tocsin.model import Mode, TensorSummary
from tocsin.tensors import (
    END_MARKER,
    Captured,
    Collection,
    LocalStorage,
    RunMeta,
    RunWriter,
    decode_record,
    event_key,
    frames,
    index_at,
    index_key,
    read_collections,
    read_end,
    read_index,
    read_values,
    summarize,
    write_step,
)


@pytest.fixture
def storage(tmp_path):
    return LocalStorage(tmp_path)


def _write(storage, *tensors, **options):
    options = {"step": 3, "worker": "w", "mode": Mode.TRAIN, "mode_step": 2} | options
    return write_step(storage, tensors=tensors, **options)


def _read(storage):
    return read_values(storage, index_at(storage, 3, "w"))


def _document(storage, step=3):
    return json.loads(storage.read(index_key(step, "w")))


def test_the_event_file_comes_before_the_index_file(storage, monkeypatch):
    written = []
    original = LocalStorage.write
    monkeypatch.setattr(
        LocalStorage, "write", lambda s, key, data: written.append(key) or original(s, key, data)
    )
    _write(storage, Captured("t", 1.0))
    assert written == [event_key(3, "w"), index_key(3, "w")]


def test_what_is_returned_is_what_is_read(storage):
    tensors = Captured("t", [1, 2]), Captured("s", shape=(4,)), Captured("t", [3, 4])
    index = _write(storage, *tensors, meta=RunMeta("r", 1))
    assert read_index(storage, storage.head(index_key(3, "w"))) == index
    assert [entry.name for entry in index.entries] == ["t", "s"]
    assert _read(storage)["t"].tolist() == [3, 4]


def test_extra_keys(storage):
    value = np.arange(4, dtype=np.float32)
    summary = summarize(value)
    raw = Captured("raw", value, role="weight", kind="dense", summary=summary)
    known = Captured("known", shape=(9,), dtype="float16", role="gradient", summary=summary)
    _write(storage, raw, known, meta=RunMeta("id", 1, 0, started=2.5))
    document = _document(storage)
    assert document["meta"] == {
        "mode": "TRAIN",
        "mode_step": 2,
        "event_file_name": event_key(3, "w"),
        "tocsin": 1,
        "run_id": "id",
        "prev_step": 1,
        "resumed_from": 0,
        "started": 2.5,
    }
    (recorded,), (shaped,) = document["tensor_payload"], document["shape_payload"]
    assert recorded["crc32"] == zlib.crc32(value.tobytes())
    assert (recorded["dtype"], recorded["shape"]) == ("float32", [4])
    assert (recorded["role"], recorded["kind"]) == ("weight", "dense")
    assert recorded["summary"]["l1"] == 6.0
    assert (shaped["tensorname"], shaped["shape"], shaped["dtype"]) == ("known", [9], "float16")
    assert shaped["summary"] == recorded["summary"]


def test_without_extras(storage):
    summary = TensorSummary(size=1)
    _write(
        storage, Captured("t", 1.0, role="loss", summary=summary), meta=RunMeta("r"), extras=False
    )
    document = _document(storage)
    assert list(document["meta"]) == ["mode", "mode_step", "event_file_name"]
    assert list(document["tensor_payload"][0]) == ["tensorname", "start_idx", "length"]


def test_shapes_alone_make_no_event_file(storage):
    index = _write(storage, Captured("s", shape=(2, 2)))
    assert index.event_key is None
    assert [found.key for found in storage.list("")] == [index_key(3, "w")]
    assert "event_file_name" not in _document(storage)["meta"]


def test_nothing_makes_no_file(storage):
    assert _write(storage) is None
    assert list(storage.list("")) == []


@pytest.mark.parametrize(
    ("tensor", "options"),
    [
        (Captured("t"), {}),
        (Captured("t", np.zeros(1, "M8[s]")), {}),
        (Captured("", 1.0), {}),
        (Captured("t", shape=(-1,)), {}),
        (Captured("t", 1.0), {"mode_step": -1}),
        (Captured("t", 1.0), {"step": -1}),
        (Captured("t", 1.0), {"worker": ""}),
    ],
)
def test_what_cannot_be_written_leaves_nothing_behind(storage, tensor, options):
    with pytest.raises(ValueError):
        _write(storage, Captured("good", 1.0), tensor, **options)
    assert list(storage.list("")) == []


def test_times_are_those_of_capture(storage):
    _write(storage, Captured("early", 1.0, wall_time=12.5), Captured("now", 1.0))
    early, now = map(decode_record, frames(storage.read(event_key(3, "w"))))
    assert early.wall_time == 12.5
    assert now.wall_time > 1.6e9


def test_true_checksums_can_be_read(storage):
    index = _write(storage, Captured("t", [1.5, 2.5]), checksum=True)
    frame = storage.read(event_key(3, "w"))
    assert frame[-4:] != bytes.fromhex("b3c02d06")
    assert len(frame) == index.entries[0].length
    assert _read(storage)["t"].tolist() == [1.5, 2.5]


def test_a_writer_remembers_the_step_before(storage):
    writer = RunWriter(storage, "w", run_id="id", resumed_from=7)
    writer.write(8, Mode.TRAIN, 8, [Captured("t", 1.0)])
    assert writer.write(9, Mode.TRAIN, 9, []) is None  # nothing was uploaded
    writer.write(10, Mode.EVAL, 0, [Captured("t", 1.0)])
    metas = [_document(storage, step)["meta"] for step in (8, 10)]
    assert [meta["prev_step"] for meta in metas] == [None, 8]
    assert [meta["resumed_from"] for meta in metas] == [7, 7]
    assert {meta["run_id"] for meta in metas} == {"id"}


def test_a_step_that_failed_is_not_the_step_before(storage):
    writer = RunWriter(storage, "w", run_id="id")
    with pytest.raises(ValueError):
        writer.write(1, Mode.TRAIN, 1, [Captured("t", object())])
    writer.write(2, Mode.TRAIN, 2, [Captured("t", 1.0)])
    assert _document(storage, 2)["meta"]["prev_step"] is None


def test_a_whole_run(storage):
    writer = RunWriter(storage, "w", run_id="id")
    writer.write_collections([Collection("losses", tensor_names=("loss",))], 2)
    writer.close(marker=False)
    assert read_collections(storage).num_workers == 2
    assert read_end(storage) is None
    writer.close()
    assert read_end(storage) is not None
    assert storage.read(END_MARKER) == b'{"run_id":"id"}'


_names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
_shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3)
_numbers = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?", "c8", "c16"]
_texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5)
_values = hnp.arrays(st.sampled_from(_numbers), _shapes) | hnp.arrays(
    "U5", _shapes, elements=_texts
)


@given(
    st.dictionaries(_names, _values, min_size=1, max_size=5),
    st.integers(0, 10**14),
    st.sampled_from(Mode),
    st.integers(0, 2**53),
    st.sampled_from(["worker_0", "worker_12", "/job:worker/replica:0/task:1/device:GPU:0"]),
    st.booleans(),
)
def test_round_trip(tmp_path_factory, tensors, step, mode, mode_step, worker, extras):
    storage = LocalStorage(tmp_path_factory.mktemp("run"))
    captured = [Captured(name, value) for name, value in tensors.items()]
    write_step(
        storage,
        step=step,
        worker=worker,
        mode=mode,
        mode_step=mode_step,
        tensors=captured,
        extras=extras,
    )
    index = index_at(storage, step, worker)
    assert (index.mode, index.mode_step) == (mode, mode_step)
    values = read_values(storage, index)
    assert values.keys() == tensors.keys()
    for name, value in values.items():
        assert value.shape == tensors[name].shape
        if value.dtype.kind == "U":
            assert value.tolist() == tensors[name].tolist()
        else:
            assert value.dtype == tensors[name].dtype
            assert value.tobytes() == tensors[name].tobytes()

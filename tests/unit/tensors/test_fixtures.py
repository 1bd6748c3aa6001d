"""All runs of smdebug decode exactly, and are written again byte for byte."""

from __future__ import annotations

import hashlib
import json

from tocsin.model import Mode
from tocsin.tensors import (
    Captured,
    RunWriter,
    content_bytes,
    decode_index,
    decode_record,
    encode_index,
    frames,
    open_storage,
    parse_index_key,
    read_collections,
    read_end,
)

_CONSTANT_FOOTER = 0x062DC0B3
_DTYPES = {
    "DT_HALF": "float16",
    "DT_FLOAT": "float32",
    "DT_DOUBLE": "float64",
    "DT_INT8": "int8",
    "DT_INT16": "int16",
    "DT_INT32": "int32",
    "DT_INT64": "int64",
    "DT_UINT8": "uint8",
    "DT_UINT16": "uint16",
    "DT_UINT32": "uint32",
    "DT_UINT64": "uint64",
    "DT_BOOL": "bool",
    "DT_COMPLEX64": "complex64",
    "DT_COMPLEX128": "complex128",
}


def test_there_are_eight(named_sample):
    names = ["dtypes", "multi_worker", "multi_worker_running", "profiler_torch", "reductions"]
    for name in [*names, "shapes", "torch_mlp", "xgboost"]:
        assert named_sample(name).records


def test_files_are_as_smdebug_wrote_them(sample):
    for key, digest in sample.files.items():
        assert hashlib.sha256((sample.path / key).read_bytes()).hexdigest() == digest


def test_records_decode(sample):
    decoded = [
        (key, record, len(frame))
        for key in sorted(key for key in sample.files if key.startswith("events/"))
        for frame in frames((sample.path / key).read_bytes())
        for record in [decode_record(frame)]
    ]
    expected = sorted(sample.records, key=lambda r: (r["file"], r["start_idx"]))
    assert len(decoded) == len(expected)
    for (key, record, length), truth in zip(decoded, expected, strict=True):
        assert (key, record.name, record.step) == (truth["file"], truth["tag"], truth["step"])
        assert record.wall_time == truth["wall_time"]
        assert length == truth["length"]
        assert truth["payload_crc"] == _CONSTANT_FOOTER
        labels = dict(truth["plugin_data"])
        assert record.mode == int(labels["mode"])
        assert record.mode_step == int(labels["mode_step"])
        assert list(record.value.shape) == [size for size, _ in truth["dims"]]
        if "string_val" in truth:
            assert record.value.reshape(-1).tolist() == truth["string_val"]
        else:
            assert record.value.dtype.name == _DTYPES[truth["dtype"]]
            assert record.value.nbytes == truth["content_nbytes"]
            content = content_bytes(record.value)
            assert hashlib.sha256(content).hexdigest() == truth["content_sha256"]


def test_values_are_views_of_what_was_read(named_sample):
    sample = named_sample("torch_mlp")
    data = (sample.path / sample.records[0]["file"]).read_bytes()
    value = decode_record(next(frames(data))).value
    assert not value.flags.owndata
    assert not value.flags.writeable


def test_indexes_are_encoded_as_they_were(sample):
    for key in sample.files:
        place = parse_index_key(key)
        data = (sample.path / key).read_bytes()
        if place is None or sample.name == "shapes":  # names repeat there: the writer's test
            continue
        index = decode_index(data, *place)
        names = [entry["tensorname"] for entry in json.loads(data)["tensor_payload"]]
        if len(set(names)) == len(names):
            assert encode_index(index) == encode_index(index, extras=False) == data


def test_runs_are_written_again_byte_for_byte(sample, tmp_path):
    storage = open_storage(tmp_path)
    for key in sorted(sample.files):
        place = parse_index_key(key)
        if place is None:
            continue
        document = json.loads((sample.path / key).read_bytes())
        writer = RunWriter(storage, place[1], extras=False)
        meta = document["meta"]
        writer.write(place[0], Mode[meta["mode"]], meta["mode_step"], _captured(sample, document))
    collections = read_collections(open_storage(sample.path))
    for worker in collections.workers:
        writer = RunWriter(storage, worker, extras=False)
        writer.write_collections(collections.collections.values(), collections.num_workers)
    if read_end(open_storage(sample.path)) is not None:
        writer.close()
    written = {
        str(path.relative_to(tmp_path)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in tmp_path.rglob("*")
        if path.is_file()
    }
    assert written == sample.files


def _captured(sample, document):
    """What smdebug's hook was given at one step, shapes first."""
    recorded = {entry["tensorname"] for entry in document["tensor_payload"]}
    shapes = {entry["tensorname"]: entry for entry in document["shape_payload"]}
    for name, entry in shapes.items():
        if name not in recorded:
            shape, original = tuple(entry["shape"]), entry["originalname"]
            yield Captured(name, shape=shape, original_name=original)
    if recorded:
        data = (sample.path / document["meta"]["event_file_name"]).read_bytes()
        for record in map(decode_record, frames(data)):
            yield Captured(
                record.name,
                record.value,
                wall_time=record.wall_time,
                list_shape=record.name in shapes,
            )

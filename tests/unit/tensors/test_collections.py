from __future__ import annotations

import json

import pytest
from tocsin.tensors import (
    BadCollections,
    BadPattern,
    Collection,
    LocalStorage,
    MemoryStorage,
    Object,
    collections_key,
    decode_collections,
    encode_collections,
    parse_collections_key,
    read_collections,
)


def _file(num_workers=1, **collections):
    document = {"collections": collections, "_meta": {"num_workers": num_workers}}
    return json.dumps(document).encode()


def test_none_yet(tmp_path):
    assert read_collections(LocalStorage(tmp_path)) is None


@pytest.mark.parametrize(
    ("workers", "size", "read"), [(3, 1, 3), (101, 1, 100), (4000, 1, 100), (4000, 1 << 20, 64)]
)
def test_of_very_many_files_some_are_read_evenly_distributed(workers, size, read):
    """A pipeline's workers hold different parts of a model."""

    class Files(MemoryStorage):
        def list(self, prefix, after=""):
            for number in range(workers):
                yield Object(collections_key(f"w{number:04d}"), size, 0.0)

        def read(self, key, limit=None):
            seen.append(key)
            number = int(parse_collections_key(key)[1:])
            return encode_collections([Collection(f"stage {number * 10 // workers}")], workers)

    seen: list[str] = []
    found = read_collections(Files("s3://b/run"))
    assert (len(seen), len(found.workers), found.num_workers) == (read, workers, workers)
    assert len(found.collections) == min(10, workers)


def test_workers_are_joined(tmp_path):
    storage = LocalStorage(tmp_path)
    first = Collection("w", ("a",), ("x", "y"), {"save_shape": True})
    second = Collection("w", ("b", "a"), ("y", "z"))
    storage.write(collections_key("worker_0"), encode_collections([first], 3))
    storage.write(collections_key("worker_1"), encode_collections([second, Collection("v")], 2))
    (tmp_path / "collections/000000000/worker_2_collections.json.tmp").write_bytes(b"half")
    (tmp_path / "collections/000000000/notes.txt").write_bytes(b"?")
    found = read_collections(storage)
    assert found.num_workers == 3
    assert found.workers == ("worker_0", "worker_1")
    assert list(found.collections) == ["w", "v"]
    joined = Collection("w", ("a", "b"), ("x", "y", "z"), {"save_shape": True})
    assert found.collections["w"] == joined


def test_every_field_survives():
    collection = Collection("c", ("a.*",), ("t",), {"reductions": "min"}, {"TRAIN": {}}, False)
    found = decode_collections(encode_collections([collection], 4), "worker_0")
    assert found.collections == {"c": collection}
    assert found.num_workers == 4


def test_names_are_sorted():
    document = json.loads(encode_collections([Collection("c", tensor_names=("b", "a"))]))
    assert document["collections"]["c"]["tensor_names"] == ["a", "b"]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b"{}", "collections"),
        (b'{"collections": {}}', "_meta"),
        (_file(0), "num_workers"),
        (_file(10**9), "num_workers"),
        (_file("2"), "num_workers"),
        (_file(c=[]), "object"),
        (_file(c={"include_regex": "a"}), "include_regex"),
        (_file(c={"tensor_names": [1]}), "tensor_names"),
        (_file(c={"tensor_names": ["n" * 5000]}), "tensor_names"),
        (_file(c={"include_regex": ["a"] * 1001}), "has 1,001 patterns, more than 1,000"),
        (b"[" * 200_000, "object"),
    ],
)
def test_damage_is_refused_with_key_and_reason(tmp_path, data, reason):
    storage = LocalStorage(tmp_path)
    storage.write(collections_key("worker_0"), data)
    with pytest.raises(BadCollections, match=reason) as refused:
        read_collections(storage)
    assert "worker_0_collections.json" in str(refused.value)


@pytest.mark.parametrize(
    ("tensor", "expected"),
    [
        ("fc.weight", True),
        ("gradient/fc.weight", False),
        ("listed", True),
        ("listed.not", False),
        ("smdebug/reductions/abs_mean/fc.weight", True),
        ("smdebug/reductions/abs_mean/gradient/fc.weight", False),
    ],
)
def test_contains(tensor, expected):
    collection = Collection("weights", ("^(?!gradient).*weight",), ("listed",))
    assert collection.contains(tensor) is expected


def test_a_bad_pattern_is_said():
    with pytest.raises(BadPattern):
        Collection("c", ("(",)).contains("t")

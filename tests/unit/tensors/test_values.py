"""What can be read of a step whose files are damaged, and why the rest cannot."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from tocsin.model import Mode
from tocsin.tensors import (
    Captured,
    LocalStorage,
    Unreadable,
    encode_index,
    event_key,
    index_key,
    read_index,
    read_values,
    write_step,
)

NAMES = ("a", "b", "c")
STEP = 10


@pytest.fixture
def storage(tmp_path):
    storage = LocalStorage(tmp_path)
    tensors = [Captured(name, np.full(8, ord(name), np.float32)) for name in NAMES]
    tensors.append(Captured("shape", shape=(2, 3)))
    write_step(storage, step=STEP, worker="w", mode=Mode.TRAIN, mode_step=1, tensors=tensors)
    return storage


def _index(storage):
    return read_index(storage, storage.head(index_key(STEP, "w")))


def _rewrite(storage, **changes):
    """Change the entry of tensor ``b``."""
    index = _index(storage)
    entries = tuple(
        msgspec.structs.replace(entry, **changes) if entry.name == "b" else entry
        for entry in index.entries
    )
    data = encode_index(replace(index, entries=entries))
    storage.write(index_key(STEP, "w"), data)


def _outcome(values):
    return {n: str(v) if isinstance(v, Unreadable) else v.tolist() for n, v in values.items()}


GOOD = {name: [float(ord(name))] * 8 for name in NAMES}


def test_all_values(storage):
    assert _outcome(read_values(storage, _index(storage))) == GOOD


@pytest.mark.parametrize("names", [set(), {"b"}, {"a", "c"}, {"none", "b"}, {"shape"}])
def test_some_values(storage, names):
    expected = {name: value for name, value in GOOD.items() if name in names}
    assert _outcome(read_values(storage, _index(storage), names)) == expected


def test_a_step_is_one_read(storage, monkeypatch):
    reads = []
    original = LocalStorage.read_ranges
    monkeypatch.setattr(
        LocalStorage, "read_ranges", lambda s, k, r: reads.append(list(r)) or original(s, k, r)
    )
    values = read_values(storage, _index(storage))
    size = storage.head(event_key(STEP, "w")).size
    assert reads == [[(0, size)]]
    assert not any(value.flags.owndata for value in values.values())


def test_the_event_file_is_missing(storage, tmp_path):
    (tmp_path / event_key(STEP, "w")).unlink()
    outcome = _outcome(read_values(storage, _index(storage)))
    assert set(outcome) == set(NAMES)
    assert all(event_key(STEP, "w") in reason for reason in outcome.values())
    assert all("missing" in reason for reason in outcome.values())


@pytest.mark.parametrize("left", [0, 1, 2])
def test_the_event_file_is_truncated(storage, left):
    key = event_key(STEP, "w")
    data = storage.read(key)
    storage.write(key, data[: left * len(data) // 3 + 5])
    outcome = _outcome(read_values(storage, _index(storage)))
    for position, name in enumerate(NAMES):
        if position < left:
            assert outcome[name] == GOOD[name]
        else:
            assert "ends at byte" in outcome[name]


@pytest.mark.parametrize(
    ("offset", "reason"),
    [
        (0, "checksum of the record's length"),  # the length itself
        (9, "checksum of the record's length"),
        (-1, "checksum of the record is wrong"),
        (60, "does not match the checksum"),  # content, behind smdebug's constant footer
    ],
)
def test_one_record_is_damaged(storage, offset, reason):
    entry = _index(storage).entry("b")
    data = bytearray(storage.read(event_key(STEP, "w")))
    data[entry.start + offset % entry.length] ^= 1
    storage.write(event_key(STEP, "w"), bytes(data))
    outcome = _outcome(read_values(storage, _index(storage)))
    assert reason in outcome.pop("b")
    assert outcome == {name: GOOD[name] for name in ("a", "c")}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"start": 0}, "another tensor: 'a' of step 10"),
        ({"start": 2**50}, "ends at byte"),
        ({"length": 2**50}, "ends at byte"),
        ({"length": 3}, "too few"),
        ({"length": 0}, "too few"),
        ({"start": 1}, "checksum"),
        ({"crc32": 1}, "does not match the checksum"),
    ],
)
def test_the_index_is_wrong(storage, changes, reason):
    _rewrite(storage, **changes)
    outcome = _outcome(read_values(storage, _index(storage)))
    assert reason in outcome.pop("b")
    assert outcome == {name: GOOD[name] for name in ("a", "c")}


def test_a_record_of_another_step(storage):
    key = event_key(STEP, "w")
    other = LocalStorage(storage.url + "/other")
    tensors = [Captured("a", np.zeros(8, np.float32))]
    write_step(other, step=11, worker="w", mode=Mode.TRAIN, mode_step=1, tensors=tensors)
    storage.write(key, other.read(event_key(11, "w")))
    assert "step 11" in _outcome(read_values(storage, _index(storage), {"a"}))["a"]


def test_an_event_file_that_leads_out_of_the_run(storage, tmp_path, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside") / "secret"
    outside.write_bytes(storage.read(event_key(STEP, "w")))
    path = tmp_path / event_key(STEP, "w")
    path.unlink()
    path.symlink_to(outside)
    outcome = _outcome(read_values(storage, _index(storage)))
    assert all("outside of the run" in reason for reason in outcome.values())

"""Reading values in few reads."""

from __future__ import annotations

import numpy as np
import pytest
from tocsin.tensors import NotFound, RunMeta, Unreadable, event_key, index_key
from tocsin.trial import values as values_module


class Counting:
    """A source that counts, over the real one; ``remote`` as told."""

    def __init__(self, source, *, remote):
        self._source = source
        self.remote = remote
        self.reads = []

    def read(self, key, start, length, align=0):
        self.reads.append((key, start, length))
        return self._source.read(key, start, length, align)


@pytest.fixture(params=[False, True], ids=["folder", "remote"])
def opened(request, run):
    """A trial of 20 steps of three small tensors and a large one, and what it reads."""
    small = {name: np.full(3, ord(name), np.float32) for name in "abc"}
    run.collections()
    for step in range(20):
        run.step(step, tensors={**small, "large": np.full(20_000, step, np.float32)})
    trial = run.trial()
    reader = trial._reader
    reader._source = Counting(reader._source, remote=request.param)
    return trial, reader._source.reads, request.param


def test_neighbours_come_with_one_read(opened):
    trial, reads, _ = opened
    for name in "cabcab":
        assert trial.tensor(name).value(7).tolist() == [ord(name)] * 3
    assert len(reads) == 1


def test_a_large_value_comes_alone(opened):
    trial, reads, remote = opened
    for _ in range(2):
        value = trial.tensor("large").value(7)
        assert (value[0], value.size, value.flags.writeable) == (7, 20_000, True)
        value += 1
    assert {length for _, _, length in reads} == {reads[0][2]}
    assert reads[0][2] < 81_000
    assert len(reads) == (1 if remote else 2)  # the system keeps what was read from a folder


def test_all_steps_of_a_tensor(opened):
    trial, reads, _ = opened
    for name in "abc":
        values = trial.tensor(name).values()
        assert {step: value[0] for step, value in values.items()} == dict.fromkeys(
            range(20), ord(name)
        )
    assert len(reads) == 20
    large = trial.tensor("large").values()
    assert [value[-1] for value in large.values()] == list(range(20))
    assert len(reads) == 40


def test_the_cache_is_bounded(opened, monkeypatch):
    trial, reads, _ = opened
    monkeypatch.setattr(values_module, "_CACHE", 2000)
    monkeypatch.setattr(values_module, "_AHEAD", 1000)
    for _ in range(2):
        for step in range(20):
            trial.tensor("a").value(step)
        trial.tensor("large").value(3)
        assert trial._reader._size == sum(map(len, trial._reader._kept.values())) <= 2000
    assert len(reads) == 42  # each of the steps has gone before it was asked for again
    reads.clear()
    assert len(trial.tensor("b").values()) == 20
    assert 15 <= len(reads) <= 20
    assert trial._reader._size <= 2000


def test_what_is_missing_does_not_hide_the_rest(opened, run):
    trial, _, _ = opened
    (run.path / event_key(3, "worker_0")).unlink()
    path = run.path / event_key(5, "worker_0")
    path.write_bytes(b"x" * path.stat().st_size)
    files = [trial._catalog.files(step)[0] for step in range(20)]
    places = [(file, file.layout.records["a"]) for file in files]
    read = list(trial._reader.read_many(places))
    assert [n for n, value in enumerate(read) if isinstance(value, NotFound)] == [3]
    assert [n for n, value in enumerate(read) if isinstance(value, Unreadable)] == [5]
    assert sum(isinstance(value, np.ndarray) for value in read) == 18


def test_bfloat16_is_read_as_numbers(run):
    """Its bits are stored as uint16; only the index says what they are."""
    bits = np.array([0x3F80, 0xC000, 0x7F80], np.uint16)
    run.collections().step(0, tensors={"x": bits}, meta=RunMeta("r"))
    path = run.path / index_key(0, "worker_0")
    run.storage.write(index_key(0, "worker_0"), path.read_bytes().replace(b"uint16", b"bfloat16"))
    value = run.trial().tensor("x").value(0)
    assert (str(value.dtype), value.tolist()) == ("float32", [1.0, -2.0, np.inf])
    value += 1


@pytest.mark.parametrize("name", ["a", "ab", "abc", "a" * 37])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128, np.int16])
def test_values_are_aligned(run, name, dtype):
    run.collections()
    for step in range(3):
        run.step(step, tensors={"first": 1.0, name: np.full(50_000, step, dtype)})
    for step, value in run.trial().tensor(name).values().items():
        assert (value.flags.aligned, value.flags.writeable) == (True, True)
        assert set(value.tolist()) == {step}


def test_a_file_that_is_cut_short_is_not_kept(run):
    trial = run.collections().step(0, tensors={"a": 1.0, "b": 2.0}).trial()
    path = run.path / event_key(0, "worker_0")
    path.write_bytes(path.read_bytes()[:-1])
    for _ in range(3):
        assert trial.tensor("a").value(0).item() == 1.0
    assert (trial._reader._kept, trial._reader._size) == ({}, 0)

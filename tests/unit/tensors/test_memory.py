"""A run in memory is a run like one in a folder."""

from __future__ import annotations

import pytest
from tocsin.tensors import LocalStorage, MemoryStorage, NotFound, TooLarge, Truncated

KEYS = ("index/000000000/1.json", "a", "index/000000000/0.json", "b/c")


def test_it_answers_as_a_folder_does(tmp_path):
    memory, folder = MemoryStorage("/a/history"), LocalStorage(tmp_path)
    memory.written_at = 5.0
    for key in KEYS:
        memory.write(key, b"old")
        for storage in (memory, folder):
            storage.write(key, key.encode())
    for prefix, after in (
        ("", ""),
        ("index/", ""),
        ("index/", "index/000000000/0.json"),
        ("x", ""),
    ):
        listed = [[(o.key, o.size) for o in s.list(prefix, after)] for s in (memory, folder)]
        assert listed[0] == listed[1]
    assert memory.url == "/a/history"
    assert memory.head("a").modified == 5.0
    assert memory.read("b/c") == folder.read("b/c") == b"b/c"
    ranges = [(2, 3), (0, 1)]
    assert memory.read_ranges(KEYS[0], ranges) == folder.read_ranges(KEYS[0], ranges)


def test_it_refuses_as_a_folder_does():
    memory = MemoryStorage("/a/history")
    memory.write("a", b"1234")
    with pytest.raises(NotFound):
        memory.read("b")
    with pytest.raises(TooLarge):
        memory.read("a", limit=3)
    with pytest.raises(Truncated):
        memory.read_ranges("a", [(2, 3)])

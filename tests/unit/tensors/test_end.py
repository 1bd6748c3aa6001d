"""Which end marker ends which start of a job."""

from __future__ import annotations

import pytest
from tocsin.tensors import END_MARKER, End, LocalStorage, RunWriter, read_end


@pytest.mark.parametrize(
    ("run_id", "current", "newest", "ends"),
    [
        pytest.param(None, {"a"}, 200.0, True, id="a marker without a name"),
        pytest.param("a", {"a"}, 200.0, True, id="of this start, another worker is behind"),
        pytest.param("a", {"b", "a"}, 200.0, True, id="workers with ids of their own"),
        pytest.param("a", {"b"}, 200.0, False, id="of an earlier start"),
        pytest.param("b", {"a"}, 90.0, True, id="the last start had nothing to save"),
        pytest.param("a", set(), 0.0, True, id="nothing was saved at all"),
    ],
)
def test_ends(run_id, current, newest, ends):
    assert End(100.0, run_id).ends(current, newest) is ends


@pytest.mark.parametrize(
    ("content", "run_id"),
    [
        (b"", None),
        (b'{"run_id": "r"}', "r"),
        (b'{"run_id": "r", "new": 1}', "r"),
        (b"{}", None),
        (b'{"run_id": 3}', None),
        (b"ended", None),
        (b"\xff", None),
        (b"[" * 10_000, None),
    ],
)
def test_what_stands_in_a_marker(tmp_path, content, run_id):
    storage = LocalStorage(tmp_path)
    assert read_end(storage) is None
    storage.write(END_MARKER, content)
    assert read_end(storage) == End(storage.head(END_MARKER).modified, run_id)


@pytest.mark.parametrize(
    ("options", "run_id"),
    [({"run_id": "r"}, "r"), ({}, None), ({"run_id": "r", "extras": 0}, None)],
)
def test_the_writer_names_its_start(tmp_path, options, run_id):
    storage = LocalStorage(tmp_path)
    RunWriter(storage, **options).close()
    assert read_end(storage).run_id == run_id
    assert (storage.read(END_MARKER) == b"") is (run_id is None)

from __future__ import annotations

import itertools
import os

import pytest
from tocsin.tensors import LocalStorage, NotFound, TooLarge, Truncated, open_storage

KEYS = ["a", "b/c", "b/c.d/e", "b/c/f", "b.x", "d/000_w", "d/001_w", "d/001_x", "e/f/g/h"]


@pytest.fixture
def storage(tmp_path):
    storage = LocalStorage(tmp_path / "run")
    for key in KEYS:
        if key != "b/c":
            storage.write(key, key.encode())
    return storage


def _keys(found):
    return [o.key for o in found]


KEYS = sorted(set(KEYS) - {"b/c"})


@pytest.mark.parametrize("prefix", ["", "b", "b/", "b/c", "d/00", "d/001_", "e/f/", "z", "a/"])
@pytest.mark.parametrize("after", ["", "a", "b", "b/c/", "b/c/f", "d/000_w", "d/000`", "zz"])
def test_listing_is_in_the_order_of_keys(storage, prefix, after):
    expected = [key for key in KEYS if key.startswith(prefix) and key > after]
    assert _keys(storage.list(prefix, after)) == expected


def test_listing_tells_size_and_time(storage, tmp_path):
    (found,) = storage.list("a")
    assert (found.key, found.size) == ("a", 1)
    assert found.modified == (tmp_path / "run" / "a").stat().st_mtime
    assert storage.head("a") == found


def test_listing_is_lazy(storage, monkeypatch):
    opened = []
    walk = LocalStorage._walk
    monkeypatch.setattr(
        LocalStorage,
        "_walk",
        lambda s, folder, *rest: opened.append(folder) or walk(s, folder, *rest),
    )
    assert len(list(itertools.islice(storage.list(""), 2))) == 2
    assert "e/" not in opened
    opened.clear()
    assert _keys(storage.list("", after="d/001_w")) == ["d/001_x", "e/f/g/h"]
    assert "b/" not in opened


def test_files_being_written_are_left_out(storage, tmp_path):
    (tmp_path / "run" / "d" / "002_w.tmp").write_bytes(b"half")
    assert _keys(storage.list("d/")) == ["d/000_w", "d/001_w", "d/001_x"]


def test_a_stale_temporary_file_is_replaced(storage, tmp_path):
    stale = tmp_path / "run" / f"n.{os.getpid()}.tmp"
    stale.write_bytes(b"left by a crash")
    storage.write("n", b"new")
    assert storage.read("n") == b"new"
    assert not stale.exists()


def test_a_file_that_another_process_is_writing_is_left_to_it(storage, tmp_path, monkeypatch):
    """Workers of one host write ``watch.json`` at the same moment."""
    theirs = tmp_path / "run" / f"n.{os.getpid()}.tmp"
    theirs.write_bytes(b"half")
    monkeypatch.setattr(os, "getpid", lambda: 1)
    storage.write("n", b"new")
    assert storage.read("n") == b"new"
    assert theirs.read_bytes() == b"half"


def test_a_folder_that_is_not_there_is_empty(tmp_path):
    assert list(LocalStorage(tmp_path / "none").list("index/")) == []


@pytest.mark.parametrize("key", ["none", "a/below-a-file", "none/none"])
def test_missing(storage, key):
    with pytest.raises(NotFound, match=key):
        storage.read(key)
    with pytest.raises(NotFound):
        storage.read_ranges(key, [(0, 1)])


def test_limit(storage):
    assert storage.read("b/c/f", limit=5) == b"b/c/f"
    with pytest.raises(TooLarge, match="5 bytes"):
        storage.read("b/c/f", limit=4)


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        ([], []),
        ([(0, 5)], [b"01234"]),
        ([(7, 3), (0, 2), (1, 4)], [b"789", b"01", b"1234"]),
        ([(0, 0), (10, 0)], [b"", b""]),
        ([(2, 3), (2, 3)], [b"234", b"234"]),
    ],
)
def test_ranges(storage, ranges, expected):
    storage.write("digits", b"0123456789")
    assert storage.read_ranges("digits", ranges) == expected


def test_ranges_far_apart(storage):
    storage.write("big", b"a" + bytes(200_000) + b"z")
    assert storage.read_ranges("big", [(200_001, 1), (0, 1)]) == [b"z", b"a"]


@pytest.mark.parametrize("bad", [(9, 2), (11, 0), (0, 2**52), (2**52, 1)])
def test_ranges_beyond_the_end(storage, bad):
    storage.write("digits", b"0123456789")
    with pytest.raises(Truncated, match="digits"):
        storage.read_ranges("digits", [(0, 1), bad])


@pytest.mark.parametrize("bad", [(-1, 2), (0, -1)])
def test_ranges_that_are_none(storage, bad):
    with pytest.raises(ValueError):
        storage.read_ranges("a", [bad])


@pytest.mark.parametrize("key", ["../outside", "b/../../outside", "/etc/passwd", "", "."])
def test_keys_stay_inside_the_run(storage, tmp_path, key):
    (tmp_path / "outside").write_bytes(b"secret")
    with pytest.raises(ValueError, match="outside of the run"):
        storage.read(key)
    with pytest.raises(ValueError, match="outside of the run"):
        storage.write(key, b"")


def test_links_stay_inside_the_run(storage, tmp_path):
    (tmp_path / "outside").write_bytes(b"secret")
    (tmp_path / "run" / "link").symlink_to(tmp_path / "outside")
    with pytest.raises(ValueError, match="outside of the run"):
        storage.read("link")


@pytest.mark.parametrize("key", ["link/secret", "b/link/secret", "b/link/new", "b/link/new/er"])
def test_folders_that_are_links_stay_inside_the_run(storage, tmp_path, key):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    (tmp_path / "run" / "link").symlink_to(outside)
    (tmp_path / "run" / "b" / "link").symlink_to(outside)
    for use in (storage.read, storage.head, lambda key: storage.write(key, b"")):
        with pytest.raises(ValueError, match="outside of the run"):
            use(key)
    assert [path.name for path in outside.iterdir()] == ["secret"]


def test_links_inside_the_run_are_followed(storage, tmp_path):
    (tmp_path / "run" / "link").symlink_to(tmp_path / "run" / "b")
    assert storage.read("link/c/f") == b"b/c/f"


def test_a_run_that_is_a_link(storage, tmp_path):
    (tmp_path / "alias").symlink_to(tmp_path / "run")
    assert LocalStorage(tmp_path / "alias").read("a") == b"a"


def test_url(tmp_path):
    assert open_storage(str(tmp_path) + "/run/").url == str(tmp_path / "run")
    assert open_storage(tmp_path).url == str(tmp_path)


def test_other_places_are_refused():
    with pytest.raises(ValueError, match="gs://"):
        open_storage("gs://bucket/prefix")

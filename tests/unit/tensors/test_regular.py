from __future__ import annotations

import os
from pathlib import Path

import pytest
from tocsin.model import Mode
from tocsin.tensors import (
    END_MARKER,
    BadCollections,
    Captured,
    Collection,
    LocalStorage,
    NotAFile,
    RunWriter,
    Unreadable,
    collections_key,
    event_key,
    index_key,
    open_regular,
    read_collections,
    read_values,
)
from tocsin.trial import Trial, snapshot

from tests.irregular import IRREGULAR, PIPES, in_time


def opened(path: Path | str) -> bytes:
    number = in_time(lambda: open_regular(str(path)))
    try:
        return os.read(number, 100)
    finally:
        os.close(number)


def test_a_regular_file_and_a_link_to_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    assert opened(tmp_path / "file") == opened(tmp_path / "link") == b"content"


@pytest.mark.parametrize("kind", IRREGULAR)
def test_what_is_no_regular_file(tmp_path: Path, kind: str) -> None:
    IRREGULAR[kind](tmp_path / "it")
    (tmp_path / "link").symlink_to("it")
    with pytest.raises(NotAFile) as refused:
        opened(tmp_path / "it")
    assert (refused.value.kind, str(refused.value)) == (
        kind,
        f"{tmp_path}/it is {kind}, not a file: remove it",
    )
    with pytest.raises((NotAFile, OSError)):  # a socket behind a link does not say what it is
        opened(tmp_path / "link")


@pytest.mark.parametrize("path", ["/dev/null", "/dev/zero"])
def test_a_device(path: str) -> None:
    with pytest.raises(NotAFile, match="is a device, not a file"):
        opened(path)


def test_nothing_is_left_open(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        with pytest.raises(NotAFile):
            opened(tmp_path / "pipe")
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize("name", ["none", "file/below", "dangling"])
def test_what_is_not_there(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "dangling").symlink_to("none")
    with pytest.raises((FileNotFoundError, NotADirectoryError)):
        opened(tmp_path / name)


@pytest.mark.parametrize("make", PIPES)
def test_a_pipe_that_takes_the_place_of_a_file(tmp_path: Path, make, monkeypatch) -> None:
    """After a look at the path, before it is opened."""
    path = tmp_path / "file"
    path.touch()
    look = LocalStorage._path

    def swapped(storage: LocalStorage, key: str) -> str:
        found = look(storage, key)
        path.unlink()
        make(path)
        return found

    monkeypatch.setattr(LocalStorage, "_path", swapped)
    with pytest.raises(NotAFile, match=f"file of run {tmp_path} is a named pipe"):
        in_time(lambda: LocalStorage(tmp_path).read("file"))


EVENT, INDEX = event_key(0, "worker_0"), index_key(0, "worker_0")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A finished run of two steps."""
    writer = RunWriter(LocalStorage(tmp_path))
    writer.write_collections([Collection("losses", tensor_names=("loss",))])
    for step in range(2):
        writer.write(step, Mode.TRAIN, step, [Captured("loss", 1.0)])
    writer.close()
    return tmp_path


def replaced(folder: Path, key: str, kind: str) -> Trial:
    (folder / key).unlink()
    IRREGULAR[kind](folder / key)
    return in_time(lambda: snapshot(LocalStorage(folder)))


@pytest.mark.parametrize("kind", IRREGULAR)
@pytest.mark.parametrize("read", ["head", "read", "read_ranges"])
def test_storage_refuses_it(folder: Path, kind: str, read: str) -> None:
    storage = LocalStorage(folder)
    IRREGULAR[kind](folder / "it")
    arguments = ([(0, 1)],) if read == "read_ranges" else ()
    with pytest.raises(NotAFile) as refused:
        in_time(lambda: getattr(storage, read)("it", *arguments))
    assert str(refused.value) == f"it of run {folder} is {kind}, not a file: remove it"


@pytest.mark.parametrize("kind", IRREGULAR)
@pytest.mark.parametrize("key", [index_key(1, "worker_0"), collections_key("worker_0"), END_MARKER])
def test_it_is_listed_where_a_file_belongs(folder: Path, kind: str, key: str) -> None:
    (folder / key).unlink()
    IRREGULAR[kind](folder / key)
    assert [found.key for found in LocalStorage(folder).list(key)] == [key]


@pytest.mark.parametrize("kind", IRREGULAR)
def test_an_index_file(folder: Path, kind: str) -> None:
    run = replaced(folder, INDEX, kind)
    assert in_time(run.steps) == [1]
    assert run.damaged == {INDEX: f"{INDEX} of run {folder} is {kind}, not a file: remove it"}


@pytest.mark.parametrize("kind", IRREGULAR)
def test_a_collections_file(folder: Path, kind: str) -> None:
    key = collections_key("worker_0")
    run = replaced(folder, key, kind)
    assert run.collections() == {}
    assert run.steps() == [0, 1]
    reason = f"{key} of run {folder} is {kind}, not a file: remove it"
    assert run.damaged == {"collections/": reason}
    with pytest.raises(BadCollections) as refused:
        in_time(lambda: read_collections(LocalStorage(folder)))
    assert str(refused.value) == reason


@pytest.mark.parametrize("kind", IRREGULAR)
def test_an_end_marker(folder: Path, kind: str) -> None:
    assert snapshot(LocalStorage(folder)).loaded_all_steps
    run = replaced(folder, END_MARKER, kind)
    assert (run.loaded_all_steps, run.steps()) == (False, [0, 1])
    assert run.damaged == {
        END_MARKER: f"{END_MARKER} of run {folder} is {kind}, not a file: remove it"
    }


@pytest.mark.parametrize("kind", IRREGULAR)
def test_an_event_file(folder: Path, kind: str) -> None:
    run = replaced(folder, EVENT, kind)
    storage, (index,) = LocalStorage(folder), run.index_files(0)
    (value,) = in_time(lambda: read_values(storage, index)).values()
    assert isinstance(value, Unreadable)
    assert str(value) == f"{EVENT} of run {folder} is {kind}, not a file: remove it"
    assert run.tensor("loss").value(1) == 1.0

"""Looking for news where every request costs."""

from __future__ import annotations

import pytest
from tocsin.tensors import LocalStorage, NotFound, index_key
from tocsin.trial import remote as remote_module
from tocsin.trial.remote import Remote
from tocsin.trial.source import StepRange


class Listing:
    """The storage of a folder, and how many keys were listed."""

    def __init__(self, storage):
        self._storage = storage
        self.listed = 0
        self.read, self.read_ranges, self.url = storage.read, storage.read_ranges, storage.url

    def list(self, prefix, after=""):
        for found in self._storage.list(prefix, after):
            self.listed += 1
            yield found


@pytest.fixture
def storage(run):
    return Listing(LocalStorage(run.path))


def _news(remote, **options):
    found = remote.new_files(**options)
    return [one.step for one, _ in zip(found, remote.indexes(found), strict=True)]


def _write(run, steps, worker="worker_0"):
    for step in steps:
        run.step(step, worker)


def test_only_the_newest_are_listed_again(run, storage, monkeypatch):
    monkeypatch.setattr(remote_module, "_OVERLAP", 10)
    _write(run, range(10, 50))
    remote = Remote(storage, StepRange())
    assert _news(remote) == list(range(10, 50))
    storage.listed = 0
    _write(run, [50, 5])
    _write(run, [45], "worker_1")
    assert _news(remote) == [45, 50]
    assert storage.listed == 11
    assert _news(remote) == []
    assert _news(remote, everything=True) == [5]


def test_few_are_all_listed_again(run, storage):
    _write(run, [5, 6])
    remote = Remote(storage, StepRange())
    assert _news(remote) == [5, 6]
    _write(run, [1])
    assert _news(remote) == [1]


def test_long_steps_are_found_wherever_they_sort(run, storage, monkeypatch):
    monkeypatch.setattr(remote_module, "_OVERLAP", 1)
    _write(run, [1, 999_999_999_999])
    remote = Remote(storage, StepRange())
    assert _news(remote) == [1, 999_999_999_999]
    _write(run, [1_000_000_000_000])  # its folder sorts before the other one's
    assert _news(remote) == [1_000_000_000_000]
    assert _news(Remote(storage, StepRange(10**12))) == [10**12]
    assert _news(Remote(storage, StepRange(2, 10**12))) == [999_999_999_999]


@pytest.mark.parametrize(
    ("steps", "expected", "listed"),
    [
        (StepRange(), [0, 999, 1000, 1001, 3000], 5),
        (StepRange(1000), [1000, 1001, 3000], 3),
        (StepRange(None, 1000), [0, 999], 3),
        (StepRange(999, 1001), [999, 1000], 3),
        (StepRange(5000), [], 0),
    ],
)
def test_a_range_is_listed_alone(run, storage, steps, expected, listed):
    _write(run, [0, 999, 1000, 1001, 3000])
    assert _news(Remote(storage, steps)) == expected
    assert storage.listed == listed


def test_what_cannot_be_read_is_told_with_its_reason(run, storage):
    _write(run, [0, 1, 2])
    remote = Remote(storage, StepRange())
    found = remote.new_files()
    (run.path / index_key(0, "worker_0")).unlink()
    run.storage.write(index_key(1, "worker_0"), b"{")
    kinds = [type(index).__name__ for index in remote.indexes(found)]
    assert kinds == ["NotFound", "BadIndex", "IndexFile"]
    with pytest.raises(NotFound):
        remote.read("events/000000000009/000000000009_worker_0.tfevents", 0, 1)


def test_news_are_lost_by_no_error(run, storage, monkeypatch):
    """What could not be read for want of access, say, is asked for again."""
    _write(run, [0, 1, 2])
    remote = Remote(storage, StepRange())
    read = storage.read
    monkeypatch.setattr(
        storage, "read", lambda *_, **__: (_ for _ in ()).throw(PermissionError("no"))
    )
    with pytest.raises(PermissionError):
        _news(remote)
    monkeypatch.setattr(storage, "read", read)
    assert _news(remote) == [0, 1, 2]

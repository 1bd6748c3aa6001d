"""Opens RUN: a local folder or ``s3://bucket/prefix``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from tocsin.cli.errors import CommandError
from tocsin.tensors import (
    COLLECTIONS,
    INDEX,
    NotFound,
    Storage,
    open_storage,
    parse_index_key,
)
from tocsin.trial import not_a_run

_MARKS = {INDEX.rstrip("/"), COLLECTIONS.rstrip("/")}


def storage_of(url: str, *, may_come: bool = False) -> Storage:
    """The files at ``url``. Raises CommandError if it names no place.

    may_come: whether a folder may be made later.
    """
    if not url.strip():
        raise CommandError("RUN is empty: name a folder or s3://bucket/prefix")
    if not may_come and "://" not in url and not Path(url).expanduser().exists():
        raise CommandError(f"{url}: no such folder")
    return open_storage(url)


def steps_at(storage: Storage) -> int:
    """The number of steps with index files. Raises NotARun if there is no run."""
    try:
        places = (parse_index_key(found.key) for found in storage.list(INDEX))
        steps = len({place[0] for place in places if place})
        if steps or _any(storage, COLLECTIONS):
            return steps
        raise not_a_run(storage)
    except NotFound:  # the bucket
        raise not_a_run(storage) from None


def _any(storage: Storage, prefix: str) -> bool:
    return any(True for _ in storage.list(prefix))


def runs_in(folder: Path) -> Iterator[Path]:
    """The runs in a folder and below it, in order of their paths. The folder itself may be one."""
    for path, folders, _ in os.walk(folder):
        if _MARKS & set(folders):
            folders.clear()
            yield Path(path)
        folders.sort()


def folder_of_runs(place: str) -> Path | None:
    """The folder at ``place`` if it is not a run itself, but has runs below it."""
    folder = Path(place).expanduser()
    if "://" in place or not folder.is_dir():
        return None
    return folder if next(runs_in(folder), folder) != folder else None

"""RUN as it is typed: a local folder or ``s3://bucket/prefix``."""

from __future__ import annotations

from pathlib import Path

from tocsin.cli._errors import Problem
from tocsin.tensors import (
    COLLECTIONS,
    INDEX,
    NotARun,
    NotFound,
    Run,
    Storage,
    open_storage,
    parse_index_key,
)

_HOST = "debug-output"  # where SageMaker's own jobs have their run, below the job's folder


def storage_of(url: str) -> Storage:
    """The files at ``url``. Problem for what cannot be a run's place."""
    if not url.strip():
        raise Problem("RUN is empty: name a folder or s3://bucket/prefix")
    if "://" not in url and not Path(url).expanduser().exists():
        raise Problem(f"{url}: no such folder")
    return open_storage(url)


def open_run(url: str) -> Run:
    """The run at ``url``. NotARun and Problem where there is none."""
    storage = storage_of(url)
    try:
        return Run(storage)
    except NotARun:
        raise not_a_run(storage) from None


def steps_at(storage: Storage) -> int:
    """How many steps there are index files of. NotARun where there is no run."""
    try:
        places = (parse_index_key(found.key) for found in storage.list(INDEX))
        steps = len({place[0] for place in places if place})
        if steps or _any(storage, COLLECTIONS):
            return steps
        raise not_a_run(storage)
    except NotFound:  # the bucket
        raise not_a_run(storage) from None


def not_a_run(storage: Storage) -> NotARun:
    """Why the place holds no run, with the place next to it that does."""
    below = ""
    try:
        if _any(storage, f"{_HOST}/{INDEX}"):
            below = f"; did you mean {storage.url}/{_HOST}?"
    except NotFound:
        return NotARun(f"{storage.url} is not a run: there is no such bucket")
    return NotARun(f"{storage.url} is not a run: it has neither {INDEX} nor {COLLECTIONS}{below}")


def _any(storage: Storage, prefix: str) -> bool:
    return any(True for _ in storage.list(prefix))

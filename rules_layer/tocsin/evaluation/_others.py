"""Runs that a rule compares this one with."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tocsin.tensors import (
    BadIndex,
    IndexFile,
    NotFound,
    RefusedFile,
    Storage,
    decode_index,
    index_key,
    job_name,
)

_INDEX_BYTES = 64 << 20
_MOST_LETTERS = 900  # of a URL: keys of S3, at most 1024, go on behind it
_BUCKET = re.compile(r"s3://[A-Za-z0-9._-]{1,255}(?:/|$)")


def beside(run: str, other: str) -> str:
    """The URL of a run that is named by one, or by the name of a job beside this run's.

    The other job's run lies where this one's does, with its own job's name in the path.
    Raises ValueError for what no run can be called: S3's client would, but with an error as if
    S3 were in trouble.
    """
    url = other.rstrip("/")
    if "/" not in other:
        head, _, tail = run.rpartition(job_name(run))
        url = f"{head}{other}{tail}"
    if len(url) > _MOST_LETTERS or (url.startswith("s3:") and not _BUCKET.match(url)):
        raise ValueError(f"{url[:80]!r} is not of the form s3://bucket/prefix")
    return url


def files_of(storage: Storage, files: Sequence[IndexFile]) -> list[IndexFile]:
    """The index files of the same step and workers, as far as they are there and can be used."""
    found = []
    for file in files:
        try:
            data = storage.read(index_key(file.step, file.worker), limit=_INDEX_BYTES)
            found.append(decode_index(data, file.step, file.worker))
        except (NotFound, BadIndex, RefusedFile):
            continue
    return found

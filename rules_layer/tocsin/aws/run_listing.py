"""Finds the runs in a bucket, those of smdebug too."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from tocsin.tensors import COLLECTIONS, INDEX

_LISTINGS = 16  # at a time
_MARKS = {INDEX, COLLECTIONS}


def runs_below(client: Any, bucket: str, prefix: str) -> list[str]:
    """Return the URLs of runs at and below a prefix, sorted, without folders inside a run.

    prefix: empty, or with a slash at its end.
    """
    runs: list[str] = []
    level = [prefix]
    with ThreadPoolExecutor(_LISTINGS) as pool:
        while level:
            below: list[str] = []
            for folder, inside in zip(
                level, pool.map(partial(_folders, client, bucket), level), strict=True
            ):
                if _MARKS & {each.removeprefix(folder) for each in inside}:
                    runs.append(f"s3://{bucket}/{folder}".rstrip("/"))
                else:
                    below += inside
            level = below
    return sorted(runs)


def _folders(client: Any, bucket: str, prefix: str) -> Sequence[str]:
    """The prefixes directly below one, each with a slash at its end."""
    pages = client.get_paginator("list_objects_v2").paginate(
        Bucket=bucket, Prefix=prefix, Delimiter="/"
    )
    return [each["Prefix"] for page in pages for each in page.get("CommonPrefixes", ())]

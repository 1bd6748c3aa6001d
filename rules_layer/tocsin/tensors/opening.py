"""Opens the place of a run by its URL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tocsin.tensors.local import LocalStorage
from tocsin.tensors.storage import Storage


def open_storage(url: str | Path, client: Any = None) -> Storage:
    """Return the run at ``s3://bucket/prefix`` or in a folder, which need not exist for writing.

    ``client`` is a boto3 S3 client to use in place of one of our own.
    """
    if isinstance(url, str) and url.startswith("s3://"):
        from tocsin.tensors.s3 import S3Storage

        return S3Storage(url, client)
    if isinstance(url, str) and "://" in url:
        raise ValueError(f"{url} is neither a folder nor s3://bucket/prefix")
    return LocalStorage(url)

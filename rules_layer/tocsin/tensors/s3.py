"""A run in S3. The only module of the package that imports boto3."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

from tocsin.installing import install

try:
    import boto3
    from botocore.config import Config
    from botocore.exceptions import ClientError
except ModuleNotFoundError as missing:  # pragma: no cover - a base install
    raise ModuleNotFoundError(
        f"runs in S3 need boto3: {install('aws')}", name=missing.name
    ) from None

from tocsin.retries import RETRIES
from tocsin.tensors.storage import (
    TEMPORARY,
    NotFound,
    Object,
    Parts,
    Span,
    TooLarge,
    Truncated,
    coalesce,
    scatter,
)

_CONNECTIONS = 16

_MISSING = frozenset({"404", "NoSuchKey", "NotFound", "NoSuchBucket"})
_DENIED = frozenset({"403", "AccessDenied", "Forbidden"})


class S3Storage:
    """The files below ``s3://bucket/prefix``."""

    def __init__(self, url: str, client: Any = None) -> None:
        scheme, _, path = url.partition("://")
        self._bucket, _, prefix = path.rstrip("/").partition("/")
        if scheme != "s3" or not self._bucket:
            raise ValueError(f"{url} is not of the form s3://bucket/prefix")
        self._prefix = f"{prefix}/" if prefix else ""
        self._client = client if client is not None else _client()

    @property
    def url(self) -> str:
        return f"s3://{self._bucket}/{self._prefix}".rstrip("/")

    def list(self, prefix: str, after: str = "") -> Iterator[Object]:
        start = {"StartAfter": self._prefix + after} if after else {}
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=self._prefix + prefix, **start
        )
        try:
            for page in pages:
                for found in page.get("Contents", ()):
                    key = found["Key"][len(self._prefix) :]
                    if key and not key.endswith((TEMPORARY, "/")):
                        yield Object(key, found["Size"], found["LastModified"].timestamp())
        except ClientError as error:
            raise self._reason(error, prefix) from None

    def head(self, key: str) -> Object:
        found = self._call(self._client.head_object, key)
        return Object(key, found["ContentLength"], found["LastModified"].timestamp())

    def read(self, key: str, limit: int | None = None) -> bytes:
        found = self._call(self._client.get_object, key)
        with closing(found["Body"]) as body:
            size = found["ContentLength"]
            if limit is not None and size > limit:
                raise TooLarge(self.url, key, size, limit)
            content: bytes = body.read()
        return content

    def read_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> Parts:
        spans = coalesce(ranges)
        if len(spans) < 2:
            return scatter(ranges, spans, [self._read_span(key, span) for span in spans])
        with ThreadPoolExecutor(min(len(spans), _CONNECTIONS)) as pool:
            data = list(pool.map(lambda span: self._read_span(key, span), spans))
        return scatter(ranges, spans, data)

    def write(self, key: str, data: bytes) -> None:
        self._call(self._client.put_object, key, Body=data)

    def _read_span(self, key: str, span: Span) -> bytes:
        end = span.start + span.length
        if not span.length:
            return b""
        try:
            found = self._call(self._client.get_object, key, Range=f"bytes={span.start}-{end - 1}")
        except ClientError as error:
            if _code(error) == "InvalidRange":
                raise Truncated(self.url, key, end) from None
            raise
        with closing(found["Body"]) as body:
            if found["ContentLength"] != span.length:
                raise Truncated(self.url, key, end)
            content: bytes = body.read()
        return content

    def _call(self, operation: Any, key: str, **options: Any) -> Any:
        try:
            return operation(Bucket=self._bucket, Key=self._prefix + key, **options)
        except ClientError as error:
            raise self._reason(error, key) from None

    def _reason(self, error: Any, key: str) -> Exception:
        """A client error as the error that callers know, if there is one."""
        if _code(error) in _MISSING:
            return NotFound(self.url, key)
        if _code(error) in _DENIED:
            return PermissionError(f"no access to {key or 'files'} of run {self.url}")
        known: Exception = error
        return known


def _code(error: Any) -> str:
    return str(error.response["Error"]["Code"])


def _client() -> Any:
    return boto3.client(
        "s3",
        config=Config(
            retries=RETRIES,
            max_pool_connections=_CONNECTIONS,
            connect_timeout=5,
            read_timeout=30,
        ),
    )

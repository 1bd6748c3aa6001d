"""Files that are written into a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class RunFiles:
    client: Any

    def write(self, run: str, key: str, data: bytes) -> None:
        bucket, _, prefix = run.removeprefix("s3://").partition("/")
        path = "/".join(part for part in (prefix.rstrip("/"), key) if part)
        self.client.put_object(Bucket=bucket, Key=path, Body=data, ContentType="application/json")

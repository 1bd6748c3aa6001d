"""Keys in the state bucket of a replay of many runs, and of each result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from botocore.exceptions import ClientError

from tocsin.aws.clients import error_code
from tocsin.aws.s3 import MISSING, run_part
from tocsin.aws.settings import REPLAYS
from tocsin.watch import Watch, encode_watch, parse_watch

_runs = msgspec.json.Decoder(list[str])


@dataclass(frozen=True)
class StoredReplay:
    """The objects of one replay: its runs, its watch file, and each run's checkpoint and result.

    name: of the replay, and of the execution that does it.
    """

    client: Any
    bucket: str
    name: str

    @property
    def checkpoints(self) -> str:
        """The prefix of the checkpoints that the replay itself has written."""
        return self._key("checkpoints/")

    @property
    def runs_key(self) -> str:
        """The key of the list of runs."""
        return self._key("runs.json")

    def write_runs(self, runs: Sequence[str], watch: Watch | None) -> None:
        """``watch`` None: each run's own configuration counts."""
        if watch is not None:
            self._put("watch.json", encode_watch(watch))
        self._put("runs.json", msgspec.json.encode(runs))

    def runs(self) -> list[str] | None:
        """None if there is no replay of this name."""
        content = self._get("runs.json")
        return None if content is None else _runs.decode(content)

    def watch(self) -> Watch | None:
        content = self._get("watch.json")
        return None if content is None else parse_watch(content)

    def write_result(self, run: str, result: Mapping[str, Any]) -> None:
        self._put(_result(run), msgspec.json.encode(result))

    def result(self, run: str) -> dict[str, Any] | None:
        """None as long as there is none."""
        content = self._get(_result(run))
        return None if content is None else msgspec.json.decode(content)

    def _put(self, name: str, content: bytes) -> None:
        self.client.put_object(Bucket=self.bucket, Key=self._key(name), Body=content)

    def _get(self, name: str) -> bytes | None:
        try:
            answer = self.client.get_object(Bucket=self.bucket, Key=self._key(name))
        except ClientError as error:
            if error_code(error) in MISSING:
                return None
            raise
        content: bytes = answer["Body"].read()
        return content

    def _key(self, name: str) -> str:
        return f"{REPLAYS}{self.name}/{name}"


def _result(run: str) -> str:
    return f"results/{run_part(run)}.json"

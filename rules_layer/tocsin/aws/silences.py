"""The deployment's silences: one item of the table, for there are few."""

from __future__ import annotations

import secrets
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import msgspec

from tocsin.aws.dynamodb import Table
from tocsin.watch import Silence

_KEY = "silences"
_MOST = 500
_KEPT = 7 * 24 * 3600  # seconds after they have expired
_MOST_BYTES = 350_000  # compressed; DynamoDB takes 400 kB
_MOST_PLAIN = 16 << 20

_decoder = msgspec.json.Decoder(list[Silence])


@dataclass(frozen=True)
class DynamoSilences:
    table: Table
    now: Callable[[], float]

    def all(self) -> Sequence[Silence]:
        """Return all silences, the oldest first; expired ones are kept for a week."""
        return _decode(self.table.load(_KEY)[0])

    def active(self, now: float) -> Sequence[Silence]:
        """Silences that have not expired at ``now`` (seconds since the epoch)."""
        return [each for each in self.all() if each.until.timestamp() > now]

    def add(self, silence: Silence) -> Silence:
        """Return the silence with the id that it got. ValueError if there are too many."""
        added = replace(silence, id=secrets.token_hex(4))
        oldest = self.now() - _KEPT

        def edit(body: bytes | None) -> tuple[bytes, Silence]:
            kept = [each for each in _decode(body) if each.until.timestamp() > oldest]
            if len(kept) >= _MOST:
                raise ValueError(f"there are {_MOST} silences, the maximum: expire some first")
            return _encode([*kept, added]), added

        return self.table.change(_KEY, edit)

    def expire(self, id_: str, now: float) -> Silence:
        """End a silence at ``now``, unless it has ended. Raises KeyError if there is none."""
        end = datetime.fromtimestamp(now, UTC)

        def edit(body: bytes | None) -> tuple[bytes, Silence]:
            silences = {each.id: each for each in _decode(body)}
            before = silences[id_]
            silences[id_] = replace(before, until=min(before.until, end))
            return _encode(list(silences.values())), silences[id_]

        return self.table.change(_KEY, edit)


def _encode(silences: list[Silence]) -> bytes:
    body = zlib.compress(msgspec.json.encode(silences))
    if len(body) > _MOST_BYTES:
        raise ValueError("there are too many silences: expire some first")
    return body


def _decode(body: bytes | None) -> list[Silence]:
    if body is None:
        return []
    try:
        plain = zlib.decompressobj().decompress(body, _MOST_PLAIN)
        return _decoder.decode(plain)
    except (zlib.error, msgspec.DecodeError) as error:
        raise ValueError(f"not silences: {error}") from error

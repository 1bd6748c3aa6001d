"""The text of a file of the profiler, unpacked, of a limited size."""

from __future__ import annotations

import zlib

from tocsin.tensors import RefusedFile, Storage, TooLarge

MOST_BYTES = 32 << 20  # unpacked; the largest machine, each 100 ms, writes 30 MB a minute
_GZIP = b"\x1f\x8b"


class BadProfile(RefusedFile):
    """A file of the profiler cannot be used; the message is one line."""


def read_text(storage: Storage, key: str, limit: int = MOST_BYTES) -> bytes:
    """Return the file's bytes, unpacked if it is gzip's. One that breaks off is read up to there.

    Raises NotFound, TooLarge, BadProfile.
    """
    data = storage.read(key, limit=limit)
    if not data.startswith(_GZIP):
        return data
    parts, size = [], 0
    while data.startswith(_GZIP):  # several may follow each other
        unpacking = zlib.decompressobj(wbits=31)
        try:
            part = unpacking.decompress(data, limit + 1 - size)
        except zlib.error as error:
            raise BadProfile(f"{key} of run {storage.url}: not gzip: {error}") from None
        parts.append(part)
        size += len(part)
        if size > limit:
            raise TooLarge(storage.url, f"{key}, unpacked,", size, limit)
        data = unpacking.unused_data
    return b"".join(parts)

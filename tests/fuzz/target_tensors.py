"""The target of ``fuzz_tensors.py``; run by an interpreter that has atheris."""

from __future__ import annotations

import contextlib
import sys
import tracemalloc
from collections.abc import Sequence

import atheris

with atheris.instrument_imports(include=["tocsin"]):
    from tocsin.tensors import (
        BadCollections,
        BadIndex,
        NotFound,
        Object,
        Truncated,
        Unreadable,
        decode_collections,
        decode_index,
        decode_record,
        frames,
        read_values,
        summarize,
    )
    from tocsin.tensors.encoding import head

FLOOR = 1 << 20  # bytes that any input may take
FACTOR = 64  # objects of Python are larger than what they are read from

INDEX = (
    b'{"meta": {"mode": "TRAIN", "mode_step": 0, "event_file_name": "events/0/0_w.tfevents"}, '
    b'"tensor_payload": [{"tensorname": "raw", "start_idx": 0, "length": %d}]}'
)
FOOTER = bytes.fromhex("b3c02d06")


class Memory:
    """A run's only event file."""

    url = "memory"

    def __init__(self, data: bytes) -> None:
        self.data = data

    def head(self, key: str) -> Object:
        return Object(key, len(self.data), 0.0)

    def read_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        if any(start + length > len(self.data) for start, length in ranges):
            raise Truncated(self.url, key, len(self.data))
        if not self.data:
            raise NotFound(self.url, key)
        return [self.data[start : start + length] for start, length in ranges]


def read_record(data: bytes) -> None:
    """A payload in a sound frame."""
    frame = head(len(data)) + data + FOOTER
    summarize(decode_record(frame).value)


def read_file(data: bytes) -> None:
    for frame in frames(data):
        decode_record(frame, check=False)


def read_index(data: bytes) -> None:
    index = decode_index(data, 0, "w")
    read_values(Memory(data), index)


def read_collections(data: bytes) -> None:
    decode_collections(data, "w")


def read_event(data: bytes) -> None:
    """An event file behind an index that fits, whatever the file holds."""
    read_values(Memory(data), decode_index(INDEX % len(data), 0, "w"))


READERS = (read_record, read_file, read_index, read_collections, read_event)


def fuzz(data: bytes) -> None:
    if not data:
        return
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    with contextlib.suppress(BadCollections, BadIndex, Unreadable):
        READERS[data[0] % len(READERS)](data[1:])
    _, peak = tracemalloc.get_traced_memory()
    if peak - before > FLOOR + FACTOR * len(data):
        raise MemoryError(f"{len(data)} bytes made the reader take {peak - before}")


def main() -> None:
    tracemalloc.start()
    atheris.Setup(sys.argv, fuzz)
    atheris.Fuzz()


if __name__ == "__main__":
    main()

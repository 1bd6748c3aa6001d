"""The files of one run, in whatever place: the interface, and its errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

TEMPORARY = ".tmp"
Parts = list[bytes]  # by this name where a method called ``list`` hides the type
_GAP = 64 * 1024


@dataclass(frozen=True)
class Object:
    """One file of a run. ``modified`` is in seconds since the epoch, ``size`` in bytes."""

    key: str
    size: int
    modified: float


class NotFound(Exception):
    """The run has no file under this key."""

    def __init__(self, url: str, key: str) -> None:
        super().__init__(f"run {url} has no file {key}")
        self.url = url
        self.key = key


class RefusedFile(ValueError):
    """There is a file that may not be read; nothing of it was read."""


class TooLarge(RefusedFile):
    """A file is bigger than the reader allows."""

    def __init__(self, url: str, key: str, size: int, limit: int) -> None:
        super().__init__(f"{key} of run {url} has {size} bytes, more than the {limit} allowed")


class NotAFile(RefusedFile):
    """Something else is there than a regular file: a named pipe, a device, a folder …

    Reading a pipe or a device may never end. ``kind`` says which it is.
    """

    def __init__(self, name: str, kind: str) -> None:
        super().__init__(f"{name} is {kind}, not a file: remove it")
        self.kind = kind


class Outside(RefusedFile):
    """A key, or the link there, leads out of the run."""

    def __init__(self, url: str, key: str) -> None:
        super().__init__(f"{key!r} points outside of the run {url}: replace it with a file")


class Truncated(ValueError):
    """A byte range reaches beyond the end of its file."""

    def __init__(self, url: str, key: str, end: int) -> None:
        super().__init__(f"{key} of run {url} ends before byte {end}")


class Storage(Protocol):
    """The files of one run. Keys are relative to the run's root, with ``/`` between the parts."""

    @property
    def url(self) -> str:
        """``s3://bucket/prefix`` or an absolute path, without a trailing slash."""

    def list(self, prefix: str, after: str = "") -> Iterator[Object]:
        """Files whose key begins with ``prefix`` and sorts after ``after``, in key order.

        Lazy: what is not asked for is not listed. Files being written (``.tmp``) are left out.
        Whatever is not a regular file is listed too: reading it raises NotAFile.
        """

    def head(self, key: str) -> Object:
        """Size and time of one file. Raises NotFound, NotAFile."""

    def read(self, key: str, limit: int | None = None) -> bytes:
        """Return a whole file. Raises NotFound, NotAFile, and TooLarge for more than ``limit``
        bytes."""

    def read_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> Parts:
        """Return the ``(start, length)`` ranges of a file, in the order given.

        Raises NotFound, NotAFile, Truncated.
        """

    def write(self, key: str, data: bytes) -> None:
        """Make or replace a file; readers see all of it or nothing."""


@dataclass(frozen=True)
class Span:
    """Neighbouring ranges that are read in one go; ``members`` are positions in the request."""

    start: int
    length: int
    members: tuple[int, ...]


def coalesce(ranges: Sequence[tuple[int, int]], gap: int = _GAP) -> list[Span]:
    """Ranges at most ``gap`` bytes apart, or overlapping, joined into spans, in file order."""
    spans: list[tuple[int, int, list[int]]] = []
    for member in sorted(range(len(ranges)), key=lambda position: ranges[position]):
        start, length = ranges[member]
        if start < 0 or length < 0:
            raise ValueError(f"range of {length} bytes from {start} is not a range")
        if spans and start <= spans[-1][1] + gap:
            first, end, members = spans[-1]
            members.append(member)
            spans[-1] = (first, max(end, start + length), members)
        else:
            spans.append((start, start + length, [member]))
    return [Span(first, end - first, tuple(members)) for first, end, members in spans]


def scatter(
    ranges: Sequence[tuple[int, int]], spans: Sequence[Span], data: Sequence[bytes]
) -> list[bytes]:
    """Return the requested ranges, cut from the spans that were read."""
    parts = [b""] * len(ranges)
    for span, content in zip(spans, data, strict=True):
        for member in span.members:
            start, length = ranges[member]
            parts[member] = content[start - span.start : start - span.start + length]
    return parts

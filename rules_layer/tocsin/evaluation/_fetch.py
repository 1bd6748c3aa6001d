"""Values out of event files: reduced as they come, kept only where somebody wants them whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from tocsin.model import Detail, TensorSummary
from tocsin.tensors import (
    Entry,
    IndexFile,
    LocalStorage,
    Storage,
    Unreadable,
    detailed,
    read_values,
    summarize,
)

STEP_BYTES = 8 << 30  # of values that one step may make the evaluation read
KEPT_BYTES = 256 << 20  # of them in memory whole
BATCH_BYTES = 8 << 20  # read, then reduced while in the cache; one tensor may be KEPT_BYTES
_THREADS = 4

Key = tuple[str, str, int]
"""Worker, tensor, step."""


@dataclass(frozen=True)
class Want:
    """A tensor's record in a file's event file, to be kept whole or only reduced.

    ``fields`` are those of its summary that rules want, ``details`` what they want beyond.
    """

    file: IndexFile
    entry: Entry
    keep: bool
    fields: frozenset[str] = frozenset()
    details: tuple[Detail, ...] = ()

    @property
    def key(self) -> Key:
        return self.file.worker, self.entry.name, self.file.step

    @property
    def size(self) -> int:
        return self.entry.length or 0


@dataclass(frozen=True)
class Got:
    """What a record held; ``value`` only if it was to be kept."""

    summary: TensorSummary
    shape: tuple[int, ...]
    dtype: str
    value: NDArray[Any] | None
    details: Mapping[Detail, TensorSummary]


@dataclass(frozen=True)
class Fetched:
    """By key what was got, or why not; and how many bytes were read for it."""

    got: Mapping[Key, Got]
    refused: Mapping[Key, str]
    size: int


def fetch(storage: Storage, wants: Sequence[Want], known: Mapping[Key, Got]) -> Fetched:
    """Read each wanted record once, in batches of bounded size, several at a time.

    ``known`` is what an earlier fetch has got, and need not be read again.
    """
    unique = {want.key: want for want in sorted(wants, key=lambda want: want.keep)}
    got = {key: known[key] for key in unique if key in known}
    held = sum(had.value.nbytes for had in got.values() if had.value is not None)
    allowed, refused = _within_limits([w for key, w in unique.items() if key not in got], held)
    batches = list(_batches(allowed))
    for answers in _mapped(storage, batches):
        for key, answer in answers.items():
            if isinstance(answer, Got):
                got[key] = answer
            else:
                refused[key] = str(answer)
    return Fetched(got, refused, sum(want.size for want in allowed))


def _within_limits(wants: Sequence[Want], held: int) -> tuple[list[Want], dict[Key, str]]:
    """Those that fit, in order, beside the bytes that are ``held``; the others are refused before
    anything is read of them.
    """
    allowed, refused, read, kept = [], {}, 0, held
    for want in wants:
        kept_then = kept + want.size * want.keep
        if max(want.size, kept_then) > KEPT_BYTES:
            refused[want.key] = f"more than {KEPT_BYTES} bytes would be in memory at once"
        elif read + want.size > STEP_BYTES:
            refused[want.key] = f"the step has more than {STEP_BYTES} bytes to read"
        else:
            allowed.append(want)
            read, kept = read + want.size, kept_then
    return allowed, refused


def _batches(wants: Sequence[Want]) -> Iterator[list[Want]]:
    """Neighbours of one event file, up to ``BATCH_BYTES`` together."""
    batch: list[Want] = []
    for want in sorted(wants, key=_place):
        together = batch and batch[0].file is want.file
        if not together or sum(item.size for item in batch) + want.size > BATCH_BYTES:
            if batch:
                yield batch
            batch = []
        batch.append(want)
    if batch:
        yield batch


def _place(want: Want) -> tuple[str, int, int, int]:
    return want.file.worker, want.file.step, id(want.file), want.entry.start or 0


def _mapped(
    storage: Storage, batches: Sequence[Sequence[Want]]
) -> Iterator[Mapping[Key, Got | Unreadable]]:
    def read(batch: Sequence[Want]) -> dict[Key, Got | Unreadable]:
        keep = {want.entry.name: want for want in batch}
        values = read_values(storage, batch[0].file, keep)
        return {keep[name].key: _reduced(value, keep[name]) for name, value in values.items()}

    if isinstance(storage, LocalStorage):  # threads would only stand in each other's way
        yield from map(read, batches)
        return
    # A large tensor is alone in its batch, and in memory.
    small = [batch for batch in batches if sum(want.size for want in batch) <= BATCH_BYTES]
    if len(small) < 2:
        yield from map(read, batches)
        return
    with ThreadPoolExecutor(_THREADS) as pool:
        yield from pool.map(read, small)
    yield from map(read, (batch for batch in batches if batch not in small))


def _reduced(value: NDArray[Any] | Unreadable, want: Want) -> Got | Unreadable:
    if isinstance(value, Unreadable):
        return value
    kept = value if want.keep else None
    fingerprint = "fingerprint" in want.fields
    summary = summarize(value, fingerprint=fingerprint, fields=want.fields)
    details = {detail: detailed(value, detail) for detail in want.details}
    return Got(summary, value.shape, str(value.dtype), kept, details)

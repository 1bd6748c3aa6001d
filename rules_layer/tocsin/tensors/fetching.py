"""Values from event files: reduced as they come, kept only where they are needed whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from tocsin.model import Detail, TensorSummary
from tocsin.tensors.detail import detailed
from tocsin.tensors.event import Unreadable
from tocsin.tensors.index import Entry, IndexFile
from tocsin.tensors.local import LocalStorage
from tocsin.tensors.storage import Storage
from tocsin.tensors.summary import summarize
from tocsin.tensors.values import Value, read_values

STEP_BYTES = 8 << 30  # of values that one call may read
KEPT_BYTES = 256 << 20  # of them in memory whole
BATCH_BYTES = 8 << 20  # read, then reduced while in the cache; one tensor may be KEPT_BYTES
_THREADS = 4

ValueKey = tuple[str, str, int]
"""Worker, tensor, step."""


@dataclass(frozen=True)
class RecordToRead:
    """A tensor's record in a file's event file, to be kept whole or only reduced.

    ``fields`` are the fields of its summary that are needed, ``details`` what is needed beyond.
    """

    file: IndexFile
    entry: Entry
    keep: bool
    fields: frozenset[str] = frozenset()
    details: tuple[Detail, ...] = ()

    @property
    def key(self) -> ValueKey:
        return self.file.worker, self.entry.name, self.file.step

    @property
    def size(self) -> int:
        return self.entry.length or 0


@dataclass(frozen=True)
class FetchedValue:
    """The content of a record, reduced; ``value`` only if it was to be kept."""

    summary: TensorSummary
    shape: tuple[int, ...]
    dtype: str
    value: NDArray[Any] | None
    details: Mapping[Detail, TensorSummary]


@dataclass(frozen=True)
class Fetched:
    """The values by key, or why one could not be read; and how many bytes were read."""

    values: Mapping[ValueKey, FetchedValue]
    refused: Mapping[ValueKey, str]
    size: int


def fetch(
    storage: Storage, records: Sequence[RecordToRead], known: Mapping[ValueKey, FetchedValue]
) -> Fetched:
    """Read each record once, in batches of bounded size, several at a time.

    ``known`` are values of an earlier fetch, which are not read again.
    """
    unique = {record.key: record for record in sorted(records, key=lambda record: record.keep)}
    values = {key: known[key] for key in unique if key in known}
    held = sum(had.value.nbytes for had in values.values() if had.value is not None)
    new = [record for key, record in unique.items() if key not in values]
    allowed, refused = _within_limits(new, held)
    for answers in _read_all(storage, list(_batches(allowed))):
        for key, answer in answers.items():
            if isinstance(answer, FetchedValue):
                values[key] = answer
            else:
                refused[key] = str(answer)
    return Fetched(values, refused, sum(record.size for record in allowed))


def _within_limits(
    records: Sequence[RecordToRead], held: int
) -> tuple[list[RecordToRead], dict[ValueKey, str]]:
    """The records that fit, in order, beside the bytes that are ``held``; the others are refused
    before anything of them is read.
    """
    allowed, refused, read, kept = [], {}, 0, held
    for record in records:
        kept_then = kept + record.size * record.keep
        if max(record.size, kept_then) > KEPT_BYTES:
            refused[record.key] = f"more than {KEPT_BYTES} bytes would be in memory at once"
        elif read + record.size > STEP_BYTES:
            refused[record.key] = f"the step has more than {STEP_BYTES} bytes to read"
        else:
            allowed.append(record)
            read, kept = read + record.size, kept_then
    return allowed, refused


def _batches(records: Sequence[RecordToRead]) -> Iterator[list[RecordToRead]]:
    """Neighbours of one event file, up to ``BATCH_BYTES`` together."""
    batch: list[RecordToRead] = []
    size = 0
    for record in sorted(records, key=_place):
        together = batch and batch[0].file is record.file
        if not together or size + record.size > BATCH_BYTES:
            if batch:
                yield batch
            batch, size = [], 0
        batch.append(record)
        size += record.size
    if batch:
        yield batch


def _place(record: RecordToRead) -> tuple[str, int, int, int]:
    return record.file.worker, record.file.step, id(record.file), record.entry.start or 0


def _read_all(
    storage: Storage, batches: Sequence[Sequence[RecordToRead]]
) -> Iterator[Mapping[ValueKey, FetchedValue | Unreadable]]:
    def read(batch: Sequence[RecordToRead]) -> dict[ValueKey, FetchedValue | Unreadable]:
        keep = {record.entry.name: record for record in batch}
        values = read_values(storage, batch[0].file, keep)
        return {keep[name].key: _reduced(value, keep[name]) for name, value in values.items()}

    if isinstance(storage, LocalStorage):  # threads would only slow each other down
        yield from map(read, batches)
        return
    # A large tensor is alone in its batch, and in memory.
    small = [batch for batch in batches if sum(record.size for record in batch) <= BATCH_BYTES]
    if len(small) < 2:
        yield from map(read, batches)
        return
    with ThreadPoolExecutor(_THREADS) as pool:
        yield from pool.map(read, small)
    yield from map(read, (batch for batch in batches if batch not in small))


def _reduced(value: Value, record: RecordToRead) -> FetchedValue | Unreadable:
    if isinstance(value, Unreadable):
        return value
    kept = value if record.keep else None
    fingerprint = "fingerprint" in record.fields
    summary = summarize(value, fingerprint=fingerprint, fields=record.fields)
    details = {detail: detailed(value, detail) for detail in record.details}
    return FetchedValue(summary, value.shape, str(value.dtype), kept, details)

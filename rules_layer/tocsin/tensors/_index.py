"""Index files: what one worker saved at one step, and where its bytes lie."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from tocsin.model import Mode, TensorSummary
from tocsin.tensors._event import MAX_DIMENSIONS, MAX_NAME
from tocsin.tensors._layout import parse_index_key, resolve_event
from tocsin.tensors._storage import Object, Storage

_LIMIT = 64 * 1024 * 1024
_MAX_ENTRIES = 250_000
_VERSION = 1

_Natural = Annotated[int, Meta(ge=0, le=2**53)]  # what every JSON reader can hold
_Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
_Word = Annotated[str, Meta(max_length=128)]
_Shape = Annotated[tuple[_Natural, ...], Meta(max_length=MAX_DIMENSIONS)]


class BadIndex(ValueError):
    """An index file cannot be used; the message is the reason, in one line."""


@dataclass(frozen=True)
class RunMeta:
    """What our hook tells of the start of a job that wrote an index file.

    ``run_id`` is new at every start, ``prev_step`` the step that this worker uploaded before
    (None at first), ``resumed_from`` the step that a checkpoint was taken up at.
    """

    run_id: str
    prev_step: int | None = None
    resumed_from: int | None = None
    version: int = _VERSION


class Entry(
    msgspec.Struct,
    frozen=True,
    gc=False,
    rename={"name": "tensorname", "start": "start_idx", "original_name": "originalname"},
):
    """One tensor of an index file.

    ``start`` and ``length`` are the bytes of its record in the event file; without them the
    tensor is known by its shape or summary only. ``crc32`` is zlib's, of the content bytes.
    """

    name: _Name
    start: _Natural | None = None
    length: _Natural | None = None
    shape: _Shape | None = None
    dtype: _Word | None = None
    role: _Word | None = None
    kind: _Word | None = None
    crc32: _Natural | None = None
    summary: TensorSummary | None = None
    original_name: _Name | None = None


@dataclass(frozen=True)
class IndexFile:
    """What one worker saved at one step: one entry per name.

    ``event_key`` is None when nothing but shapes and summaries was saved; ``meta`` is None in
    runs that our hook did not write.
    """

    step: int
    worker: str
    mode: Mode
    mode_step: int
    event_key: str | None
    meta: RunMeta | None
    entries: tuple[Entry, ...]

    def entry(self, name: str) -> Entry | None:
        return next((entry for entry in self.entries if entry.name == name), None)


class _Meta(msgspec.Struct, frozen=True):
    mode: str
    mode_step: _Natural
    event_file_name: str | None = None
    tocsin: _Natural | None = None
    run_id: _Word | None = None
    prev_step: _Natural | None = None
    resumed_from: _Natural | None = None


_Payload = Annotated[list[Entry], Meta(max_length=_MAX_ENTRIES)]


class _Document(msgspec.Struct, frozen=True):
    meta: _Meta
    tensor_payload: _Payload | None = None
    shape_payload: _Payload | None = None


_decoder = msgspec.json.Decoder(_Document)


def decode_index(data: bytes, step: int, worker: str) -> IndexFile:
    """The index file of ``worker`` at ``step``. Raises BadIndex.

    Of a name that occurs more than once the last record counts; a shape that stands beside a
    record is merged into its entry.
    """
    if not data:
        raise BadIndex("file is empty")
    try:
        document = _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadIndex(str(error)) from None
    meta = document.meta
    if meta.mode not in Mode.__members__:
        raise BadIndex(f"mode {meta.mode[:80]!r} is unknown")
    if document.tensor_payload is None and document.shape_payload is None:
        raise BadIndex("neither tensor_payload nor shape_payload is there")
    try:
        event_key = resolve_event(meta.event_file_name) if meta.event_file_name else None
    except ValueError as error:
        raise BadIndex(str(error)) from None
    if document.tensor_payload and event_key is None:
        raise BadIndex("tensors are listed, but no event_file_name")
    entries = _merge(document.tensor_payload or (), document.shape_payload or ())
    return IndexFile(
        step, worker, Mode[meta.mode], meta.mode_step, event_key, _run_meta(meta), entries
    )


def read_index(storage: Storage, found: Object) -> IndexFile:
    """The index file at an object's key. Raises BadIndex, NotFound; TooLarge above 64 MiB."""
    place = parse_index_key(found.key)
    if place is None:
        raise BadIndex("key is not that of an index file")
    return decode_index(storage.read(found.key, limit=_LIMIT), *place)


def encode_index(index: IndexFile, *, extras: bool = True) -> bytes:
    """The bytes of an index file; without ``extras`` exactly those that smdebug writes.

    Entries with a record go to ``tensor_payload``, the others to ``shape_payload``.
    """
    recorded = [entry for entry in index.entries if entry.start is not None]
    shaped = [entry for entry in index.entries if entry.start is None]
    return encode_payloads(index, recorded, shaped, extras=extras)


def encode_payloads(
    index: IndexFile, recorded: Sequence[Entry], shaped: Sequence[Entry], *, extras: bool
) -> bytes:
    """An index file with these payloads in place of its entries: names may repeat."""
    meta: dict[str, Any] = {"mode": index.mode.name, "mode_step": index.mode_step}
    if index.event_key is not None:
        meta["event_file_name"] = index.event_key
    if extras and index.meta is not None:
        meta |= {
            "tocsin": index.meta.version,
            "run_id": index.meta.run_id,
            "prev_step": index.meta.prev_step,
            "resumed_from": index.meta.resumed_from,
        }
    document = {
        "meta": meta,
        "tensor_payload": [
            {"tensorname": e.name, "start_idx": e.start, "length": e.length}
            | (_extras(e, "dtype", "shape", "role", "kind", "crc32") if extras else {})
            for e in recorded
        ],
        "shape_payload": [
            {"tensorname": e.name, "originalname": e.original_name or e.name, "shape": e.shape}
            | (_extras(e, "dtype", "role", "kind") if extras else {})
            for e in shaped
        ],
    }
    return json.dumps(document).encode()


def _extras(entry: Entry, *names: str) -> dict[str, Any]:
    extras = {name: getattr(entry, name) for name in names if getattr(entry, name) is not None}
    if entry.summary is not None:
        numbers = msgspec.to_builtins(entry.summary)
        extras["summary"] = {name: _or_null(number) for name, number in numbers.items()}
    return extras


def _or_null(number: Any) -> Any:
    """JSON has no NaN and no infinity."""
    return None if isinstance(number, float) and not math.isfinite(number) else number


def _merge(recorded: Sequence[Entry], shaped: Sequence[Entry]) -> tuple[Entry, ...]:
    entries: dict[str, Entry] = {}
    for entry in recorded:
        if entry.start is None or entry.length is None:
            raise BadIndex(f"tensor {entry.name[:80]!r} has no start_idx or no length")
        entries[entry.name] = entry
    for entry in shaped:
        if entry.shape is None:
            raise BadIndex(f"tensor {entry.name[:80]!r} of shape_payload has no shape")
        known = entries.get(entry.name)
        if known is None or known.start is None:
            entries[entry.name] = msgspec.structs.replace(entry, start=None, length=None)
        elif known.shape is None:
            entries[entry.name] = msgspec.structs.replace(known, shape=entry.shape)
    return tuple(entries.values())


def _run_meta(meta: _Meta) -> RunMeta | None:
    if meta.tocsin is None or meta.run_id is None:
        return None
    return RunMeta(meta.run_id, meta.prev_step, meta.resumed_from, meta.tocsin)

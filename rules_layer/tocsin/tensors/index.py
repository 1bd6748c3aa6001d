"""Index files: the tensors that one worker saved at one step, and where their bytes are."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from tocsin.contracts import Contract
from tocsin.model import Count, Mode, Shard, TensorSummary
from tocsin.tensors.bad_summaries import MOST_ENTRIES, decoded
from tocsin.tensors.event import MAX_DIMENSIONS, MAX_NAME
from tocsin.tensors.layout import resolve_event

_VERSION = 1
_MOST_INLINE = 64 * 1024  # characters: more belongs in an event file

_Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
_Word = Annotated[str, Meta(max_length=128)]
_Inline = Annotated[str, Meta(max_length=_MOST_INLINE)]
_Shape = Annotated[tuple[Count, ...], Meta(max_length=MAX_DIMENSIONS)]


class BadIndex(ValueError):
    """An index file cannot be used; the message is the reason, in one line."""


class SavedCheckpoint(msgspec.Struct, frozen=True):
    """A checkpoint of the training: the last step that is in it, and its path."""

    step: Count
    path: Annotated[str, Meta(min_length=1, max_length=1024)]


@dataclass(frozen=True)
class RunMeta:
    """The start of a job that wrote an index file, as our hook describes it.

    ``run_id`` is new at every start, ``prev_step`` the step that this worker uploaded before
    (None at first), ``resumed_from`` the step that a checkpoint was taken up at, ``started`` when
    the start began, in seconds since the epoch, ``planned_steps`` how many steps it is to have,
    ``checkpoint`` the newest one that the training had saved.
    """

    run_id: str
    prev_step: int | None = None
    resumed_from: int | None = None
    version: int = _VERSION
    started: float | None = None
    planned_steps: int | None = None
    checkpoint: SavedCheckpoint | None = None


class Entry(
    msgspec.Struct,
    frozen=True,
    gc=False,
    rename={"name": "tensorname", "start": "start_idx", "original_name": "originalname"},
):
    """One tensor of an index file.

    ``start`` and ``length`` are the bytes of its record in the event file; without them the
    tensor is known by its shape, summary or ``inline`` values only. ``crc32`` is zlib's, of the
    content bytes. ``inline`` is base64 of the values in C order, little-endian, of ``dtype``.
    ``shard`` marks the worker's part of a larger tensor; shape and summary are those of the part.
    ``contract`` describes the contract that the tensor reports, if only its hook knows it.
    """

    name: _Name
    start: Count | None = None
    length: Count | None = None
    shape: _Shape | None = None
    dtype: _Word | None = None
    role: _Word | None = None
    kind: _Word | None = None
    crc32: Count | None = None
    summary: TensorSummary | None = None
    original_name: _Name | None = None
    inline: _Inline | None = None
    shard: Shard | None = None
    contract: Contract | None = None


@dataclass(frozen=True)
class IndexFile:
    """The tensors that one worker saved at one step: one entry per name.

    ``event_key`` is None when nothing but shapes and summaries was saved; ``meta`` is None in
    runs that our hook did not write. ``refused`` has the first tensors whose summaries cannot be
    used and were left out, with the reason.
    """

    step: int
    worker: str
    mode: Mode
    mode_step: int
    event_key: str | None
    meta: RunMeta | None
    entries: tuple[Entry, ...]
    refused: Mapping[str, str] = field(default_factory=dict)

    @property
    def run_id(self) -> str | None:
        """The start of the job that wrote it, where our hook did."""
        return None if self.meta is None else self.meta.run_id

    def entry(self, name: str) -> Entry | None:
        return next((entry for entry in self.entries if entry.name == name), None)


_Time = Annotated[float, Meta(ge=0, lt=1e11)]  # seconds since the epoch, up to the year 5138


class _Meta(msgspec.Struct, frozen=True):
    mode: str
    mode_step: Count
    event_file_name: str | None = None
    tocsin: Count | None = None
    run_id: _Word | None = None
    prev_step: Count | None = None
    resumed_from: Count | None = None
    started: _Time | None = None
    planned_steps: Count | None = None
    checkpoint: SavedCheckpoint | None = None


_Payload = Annotated[list[Entry], Meta(max_length=MOST_ENTRIES)]


class _IndexDocument(msgspec.Struct, frozen=True):
    meta: _Meta
    tensor_payload: _Payload | None = None
    shape_payload: _Payload | None = None


_decoder = msgspec.json.Decoder(_IndexDocument)


def decode_index(data: bytes, step: int, worker: str) -> IndexFile:
    """Return the index file of ``worker`` at ``step``. Raises BadIndex.

    If a name occurs more than once, the last record counts. A shape beside a record is merged
    into its entry.
    """
    if not data:
        raise BadIndex("file is empty")
    try:
        document, refused = decoded(_decoder, data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        too_many = f"length <= {MOST_ENTRIES}" in str(error)
        reason = f"lists more than {MOST_ENTRIES:,} tensors" if too_many else str(error)
        raise BadIndex(reason) from None
    meta = document.meta
    if meta.mode not in Mode.__members__:
        raise BadIndex(f"mode {meta.mode[:80]!r} is unknown")
    if meta.prev_step is not None and meta.prev_step >= step:
        raise BadIndex(f"prev_step {meta.prev_step} is no step before {step}")
    if document.tensor_payload is None and document.shape_payload is None:
        raise BadIndex("neither tensor_payload nor shape_payload is there")
    try:
        event_key = resolve_event(meta.event_file_name) if meta.event_file_name else None
    except ValueError as error:
        raise BadIndex(str(error)) from None
    if document.tensor_payload and event_key is None:
        raise BadIndex("tensors are listed, but no event_file_name")
    entries = _merge(document.tensor_payload or (), document.shape_payload or ())
    _check_overlaps(document.tensor_payload or ())
    mode, mode_step = Mode[meta.mode], meta.mode_step
    return IndexFile(step, worker, mode, mode_step, event_key, _run_meta(meta), entries, refused)


def encode_index(index: IndexFile, *, extras: bool = True) -> bytes:
    """Return the bytes of an index file; without ``extras`` exactly those that smdebug writes.

    Entries with a record go to ``tensor_payload``, the others to ``shape_payload``.
    """
    recorded = [entry for entry in index.entries if entry.start is not None]
    shaped = [entry for entry in index.entries if entry.start is None]
    return encode_payloads(index, recorded, shaped, extras=extras)


def encode_payloads(
    index: IndexFile, recorded: Sequence[Entry], shaped: Sequence[Entry], *, extras: bool
) -> bytes:
    """Return an index file with these payloads in place of its entries: names may repeat."""
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
        if index.meta.started is not None:
            meta["started"] = index.meta.started
        if index.meta.planned_steps is not None:
            meta["planned_steps"] = index.meta.planned_steps
        if index.meta.checkpoint is not None:
            meta["checkpoint"] = msgspec.to_builtins(index.meta.checkpoint)
    payloads = (
        f'"tensor_payload": [{", ".join(_recorded(entry, extras) for entry in recorded)}]',
        f'"shape_payload": [{", ".join(_shaped(entry, extras) for entry in shaped)}]',
    )
    return f'{{"meta": {json.dumps(meta)}, {", ".join(payloads)}}}'.encode()


def _recorded(entry: Entry, extras: bool) -> str:
    place = f'"start_idx": {entry.start}, "length": {entry.length}'
    more = _extras(entry, entry.shape, entry.crc32) if extras else ""
    return f'{{"tensorname": {_quoted(entry.name)}, {place}{more}}}'


def _shaped(entry: Entry, extras: bool) -> str:
    original = _quoted(entry.original_name or entry.name)
    more = f"{json.dumps(entry.shape)}{_extras(entry) if extras else ''}"
    return f'{{"tensorname": {_quoted(entry.name)}, "originalname": {original}, "shape": {more}}}'


class _Extras(msgspec.Struct, omit_defaults=True):
    """Our keys of an entry; numbers that JSON does not have become null."""

    dtype: str | None = None
    shape: tuple[int, ...] | None = None
    role: str | None = None
    kind: str | None = None
    crc32: int | None = None
    summary: TensorSummary | None = None
    inline: str | None = None
    shard: Shard | None = None
    contract: Contract | None = None


def _of_numpy(number: Any) -> Any:
    return number.item()


_encoder = msgspec.json.Encoder(enc_hook=_of_numpy)
_quoted = lru_cache(maxsize=1 << 14)(json.dumps)


def _extras(entry: Entry, shape: tuple[int, ...] | None = None, crc32: int | None = None) -> str:
    extras = _Extras(
        entry.dtype,
        shape,
        entry.role,
        entry.kind,
        crc32,
        entry.summary,
        entry.inline,
        entry.shard,
        entry.contract,
    )
    members = _encoder.encode(extras)[1:-1].decode()
    return f", {members}" if members else ""


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


def _check_overlaps(recorded: Sequence[Entry]) -> None:
    """Raises BadIndex if many records share bytes, which would be read for each of them.

    A few wrong places are damage of single tensors, which reading them reports.
    """
    claimed = sum(entry.length or 0 for entry in recorded)
    there = max(((entry.start or 0) + (entry.length or 0) for entry in recorded), default=0)
    if claimed > 2 * there:
        raise BadIndex(f"records overlap: {claimed:,} bytes of them lie within {there:,}")


def _run_meta(meta: _Meta) -> RunMeta | None:
    if meta.tocsin is None or meta.run_id is None:
        return None
    return RunMeta(
        meta.run_id,
        meta.prev_step,
        meta.resumed_from,
        meta.tocsin,
        meta.started,
        meta.planned_steps,
        meta.checkpoint,
    )

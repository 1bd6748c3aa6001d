"""Writing a run: what the hooks use."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from tocsin.contracts import Contract
from tocsin.model import Mode, Shard, TensorSummary
from tocsin.tensors.arrays import as_array, content_bytes
from tocsin.tensors.bfloat16 import BFLOAT16, is_bfloat16
from tocsin.tensors.collections import Collection, encode_collections
from tocsin.tensors.dtypes import is_text
from tocsin.tensors.encoding import Piece, labels, moment, pieces, step_field
from tocsin.tensors.end import encode_end
from tocsin.tensors.index import (
    Entry,
    IndexFile,
    RunMeta,
    SavedCheckpoint,
    decode_index,
    encode_payloads,
)
from tocsin.tensors.inline import encode_inline
from tocsin.tensors.layout import END_MARKER, collections_key, event_key, index_key
from tocsin.tensors.storage import Storage


class Captured(msgspec.Struct, frozen=True, eq=False):
    """One tensor to write: its value, or (``value`` None) its shape and summary only.

    ``wall_time`` is the moment of capture in seconds since the epoch, by default that of
    writing. bfloat16 is given as an array of the package ml_dtypes, or as its bits: a ``value`` of
    uint16 with the ``dtype`` "bfloat16". ``list_shape`` lists the shape of a raw value in
    ``shape_payload`` too, as smdebug's option save_shape does; smdebug's own reader then loses the
    value, so leave it alone. ``inline`` is a short series of numbers that goes into the index file
    itself; its shape and type count in place of ``shape`` and ``dtype``. ``shard``: it is a part of
    a larger tensor. ``contract``: it reports this one, which a user wrote.
    """

    name: str
    value: ArrayLike | None = None
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    role: str | None = None
    kind: str | None = None
    summary: TensorSummary | None = None
    original_name: str | None = None
    wall_time: float | None = None
    list_shape: bool = False
    inline: NDArray[Any] | None = None
    shard: Shard | None = None
    contract: Contract | None = None


def write_step(
    storage: Storage,
    *,
    step: int,
    worker: str = "worker_0",
    mode: Mode,
    mode_step: int,
    tensors: Iterable[Captured],
    meta: RunMeta | None = None,
    extras: bool = True,
    checksum: bool = False,
) -> IndexFile | None:
    """Write one step of one worker: the event file, then the index file that makes it visible.

    Without ``extras`` the files are byte for byte those of smdebug; with ``checksum`` records
    end in true CRCs, which smdebug's reader refuses and TensorBoard's demands. Nothing is
    written, and None returned, when there are no tensors. Raises ValueError for a value that the
    format cannot carry, before anything is written.
    """
    now = time.time()
    own, after = step_field(step), labels(mode, mode_step)
    data: list[Piece] = []
    recorded: list[Entry] = []
    shaped: list[Entry] = []
    position = 0
    for tensor in tensors:
        if tensor.value is None:
            shape = tensor.shape if tensor.inline is None else tensor.inline.shape
            shaped.append(_entry(tensor, shape))
            continue
        value, dtype = _stored(as_array(tensor.value), tensor.dtype)
        content = b"" if is_text(value.dtype) else content_bytes(value)
        before = moment(now if tensor.wall_time is None else tensor.wall_time, own)
        record = pieces(tensor.name, value, content, before, after, checksum=checksum)
        data += record
        length = sum(map(len, record))
        entry = Entry(
            tensor.name,
            position,
            length,
            value.shape,
            dtype,
            tensor.role,
            tensor.kind,
            zlib.crc32(content) if extras and not is_text(value.dtype) else None,
            tensor.summary,
            shard=tensor.shard,
            contract=tensor.contract,
        )
        recorded.append(entry)
        position += length
        if tensor.list_shape:
            shaped.append(_entry(tensor, value.shape))
    if not recorded and not shaped:
        return None
    key = event_key(step, worker) if recorded else None
    index = IndexFile(step, worker, mode, mode_step, key, meta, ())
    document = encode_payloads(index, recorded, shaped, extras=extras)
    written = decode_index(document, step, worker)  # what readers will see, or why they cannot
    if key is not None:
        storage.write(key, b"".join(data))
    storage.write(index_key(step, worker), document)
    return written


class RunWriter:
    """One worker's part of a run, step after step, in the order of ``step``.

    ``checkpoint``: the newest one of the training, which the next steps name. Any thread may set
    it.

    Example:
        >>> writer = RunWriter(open_storage("/tmp/run"), run_id=uuid4().hex)
        >>> writer.write_collections([Collection("losses", tensor_names=("loss",))])
        >>> writer.write(0, Mode.TRAIN, 0, [Captured("loss", 0.7)])
        >>> writer.close()
    """

    def __init__(
        self,
        storage: Storage,
        worker: str = "worker_0",
        *,
        run_id: str | None = None,
        resumed_from: int | None = None,
        started: float | None = None,
        planned_steps: int | None = None,
        extras: bool = True,
        checksum: bool = False,
    ) -> None:
        self._storage = storage
        self._worker = worker
        self._meta = None
        if run_id is not None:
            self._meta = RunMeta(
                run_id, None, resumed_from, started=started, planned_steps=planned_steps
            )
        self._extras = extras
        self._checksum = checksum

    def write(
        self,
        step: int,
        mode: Mode,
        mode_step: int,
        tensors: Iterable[Captured],
        checkpoint: SavedCheckpoint | None = None,
    ) -> IndexFile | None:
        """Write one step; the next one will name it as its ``prev_step``.

        checkpoint: the last one that the training saved before the end of this step.
        """
        index = write_step(
            self._storage,
            step=step,
            worker=self._worker,
            mode=mode,
            mode_step=mode_step,
            tensors=tensors,
            meta=self._meta and replace(self._meta, checkpoint=checkpoint),
            extras=self._extras,
            checksum=self._checksum,
        )
        if index is not None and self._meta is not None:
            self._meta = replace(self._meta, prev_step=step)
        return index

    def write_collections(self, collections: Iterable[Collection], num_workers: int = 1) -> None:
        """Write this worker's collections file, or replace it."""
        document = encode_collections(collections, num_workers)
        self._storage.write(collections_key(self._worker), document)

    def close(self, *, marker: bool = True) -> None:
        """End the run for everybody; only one worker should, after all others are done."""
        if marker:
            run_id = self._meta.run_id if self._meta is not None and self._extras else None
            self._storage.write(END_MARKER, encode_end(run_id))


def _stored(value: NDArray[Any], dtype: str | None) -> tuple[NDArray[Any], str]:
    """The array that goes into the event file, and the type that the index names."""
    if is_bfloat16(value.dtype):
        return value.view(np.uint16), BFLOAT16
    own = _name(value.dtype)
    return value, BFLOAT16 if (own, dtype) == ("uint16", BFLOAT16) else own


@lru_cache
def _name(dtype: np.dtype[Any]) -> str:
    return str(dtype.newbyteorder("="))


def _entry(tensor: Captured, shape: tuple[int, ...] | None) -> Entry:
    if shape is None:
        raise ValueError(f"tensor {tensor.name!r} has neither a value nor a shape")
    return Entry(
        tensor.name,
        shape=shape,
        dtype=tensor.dtype if tensor.inline is None else _name(tensor.inline.dtype),
        role=tensor.role,
        kind=tensor.kind,
        summary=tensor.summary,
        original_name=tensor.original_name,
        inline=None if tensor.inline is None else encode_inline(tensor.inline),
        shard=tensor.shard,
        contract=tensor.contract,
    )

"""Index files as columns: the few numbers of each tensor that a picture of a whole run needs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import chain
from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from tocsin.model import Mode, TensorSummary
from tocsin.tensors.bad_summaries import decoded
from tocsin.tensors.index import BadIndex, RunMeta

FIELDS = ("value", "lost", "size", "ratio", "share")
"""The columns of ``IndexColumns.numbers``.

value: a single number itself, else the mean of the absolute values.
lost: how many elements are NaN or infinite.
size: the number of elements.
ratio: mean |update| ÷ mean |value|.
share: inactive units ÷ units.
Everywhere NaN is: not known.
"""


_Count = Annotated[float, msgspec.Meta(ge=0, le=2**53)]
_Size = Annotated[float, msgspec.Meta(ge=0)]


class _Summary(msgspec.Struct, gc=False):
    """Fields of a ``TensorSummary``, within the same bounds. All are floats, so that a column of
    them is read without a look at each.
    """

    size: _Count | None = math.nan
    nan: _Count | None = math.nan
    posinf: _Count | None = math.nan
    neginf: _Count | None = math.nan
    mean: float | None = math.nan
    abs_mean: _Size | None = math.nan
    l1: _Size | None = math.nan
    update_l1: _Size | None = math.nan
    units: _Count | None = math.nan
    inactive_units: _Count | None = math.nan


class _Entry(msgspec.Struct, gc=False, rename={"name": "tensorname", "start": "start_idx"}):
    name: str
    start: int | None = None
    length: int | None = None
    role: str | None = None
    kind: str | None = None
    summary: _Summary | None = None


class _Meta(msgspec.Struct):
    mode: str
    mode_step: int
    event_file_name: str | None = None
    run_id: str | None = None
    prev_step: int | None = None
    resumed_from: int | None = None
    started: float | None = None
    planned_steps: int | None = None


class _Document(msgspec.Struct):
    meta: _Meta
    tensor_payload: list[_Entry] | None = None
    shape_payload: list[_Entry] | None = None


Place = tuple[str, str | None, str | None]
"""A tensor's name, role and kind, as the index file has them."""


@dataclass(frozen=True, eq=False)
class IndexColumns:
    """One index file. ``numbers``: float32, one row for each of FIELDS, one column a tensor.

    records: the number of bytes of the records, of tensors without a summary, by position.
    """

    step: int
    worker: str
    mode: Mode
    meta: RunMeta | None
    tensors: tuple[Place, ...]
    numbers: NDArray[np.float32]
    records: dict[int, int]


_decoder = msgspec.json.Decoder(_Document)
_EMPTY = _Summary()


def decode_columns(data: bytes, step: int, worker: str) -> IndexColumns:
    """Return the columns of an index file. Raises BadIndex.

    Reads several times as fast as ``decode_index``, which also gives places, shapes and checks.
    """
    try:
        document, _ = decoded(_decoder, data)
        mode = Mode[document.meta.mode]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, KeyError) as error:
        raise BadIndex(str(error)) from None
    payload = [*(document.tensor_payload or ()), *(document.shape_payload or ())]
    columns = _columns([entry.summary or _EMPTY for entry in payload])
    return IndexColumns(
        step,
        worker,
        mode,
        _run_meta(document.meta),
        tuple([(entry.name, entry.role, entry.kind) for entry in payload]),
        columns,
        {
            at: entry.length or 0
            for at, entry in enumerate(payload)
            if entry.summary is None and entry.start is not None
        },
    )


def numbers_of(summary: TensorSummary) -> NDArray[np.float32]:
    """FIELDS of a summary."""
    known = {name: getattr(summary, name) for name in _Summary.__struct_fields__}
    found: NDArray[np.float32] = _columns([_Summary(**known)])[:, 0]
    return found


def _columns(summaries: list[_Summary]) -> NDArray[np.float32]:
    """FIELDS of each summary, a column each."""
    size, nan, posinf, neginf, mean, abs_mean, l1, update, units, inactive = _raw(summaries)
    with np.errstate(all="ignore"):
        known = ~(np.isnan(size) & np.isnan(mean) & np.isnan(abs_mean))
        lost = np.nan_to_num(nan) + np.nan_to_num(posinf) + np.nan_to_num(neginf)
        each = np.where(np.isnan(abs_mean), l1 / size, abs_mean)
        value = np.where((size == 1) | np.isnan(each), mean, each)
        value = np.where((size == 1) & (lost > 0), np.nan, value)
        ratio = np.where(l1 > 0, update / l1, np.nan)
        share = np.where(units > 0, inactive / units, np.nan)
        numbers = np.stack([value, np.where(known, lost, np.nan), size, ratio, share])
        return numbers.astype(np.float32)


def _raw(summaries: list[_Summary]) -> NDArray[np.float64]:
    """A row for each field of a summary, a column for each summary."""
    rows = map(msgspec.structs.astuple, summaries)
    width = len(_Summary.__struct_fields__)
    flat: NDArray[np.float64]
    try:
        flat = np.fromiter(chain.from_iterable(rows), np.float64, len(summaries) * width)
    except TypeError:  # a null, which becomes NaN
        flat = np.array([msgspec.structs.astuple(each) for each in summaries], np.float64)
    found: NDArray[np.float64] = flat.reshape(-1, width).T
    return found


def _run_meta(meta: _Meta) -> RunMeta | None:
    if meta.run_id is None:
        return None
    return RunMeta(
        meta.run_id,
        meta.prev_step,
        meta.resumed_from,
        started=meta.started,
        planned_steps=meta.planned_steps,
    )

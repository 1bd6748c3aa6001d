"""Index files as columns: the few numbers of each tensor that a picture of a whole run needs."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from tocsin.model import Mode
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

_NAN = float("nan")


class _Summary(msgspec.Struct, gc=False):
    size: int | None = None
    nan: int | None = None
    posinf: int | None = None
    neginf: int | None = None
    mean: float | None = None
    abs_mean: float | None = None
    l1: float | None = None
    update_l1: float | None = None
    units: int | None = None
    inactive_units: int | None = None


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
    """The columns of an index file. Raises BadIndex.

    Reads several times as fast as ``decode_index``, which also gives places, shapes and checks.
    """
    try:
        document = _decoder.decode(data)
        mode = Mode[document.meta.mode]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, KeyError) as error:
        raise BadIndex(str(error)) from None
    payload = [*(document.tensor_payload or ()), *(document.shape_payload or ())]
    summaries = [entry.summary or _EMPTY for entry in payload]
    numbers = np.array([_numbers(summary) for summary in summaries], np.float64)
    with np.errstate(over="ignore"):
        columns = numbers.reshape(-1, len(FIELDS)).T.astype(np.float32)
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


def numbers_of(summary: object) -> tuple[float, ...]:
    """FIELDS of a ``TensorSummary``."""
    known = {name: getattr(summary, name) for name in _Summary.__struct_fields__}
    return _numbers(_Summary(**known))


def _numbers(summary: _Summary) -> tuple[float, ...]:
    size = summary.size
    if size is None and summary.mean is None and summary.abs_mean is None:
        return _NAN, _NAN, _NAN, _NAN, _NAN
    lost = (summary.nan or 0) + (summary.posinf or 0) + (summary.neginf or 0)
    l1, update = summary.l1, summary.update_l1
    size_of_one = summary.abs_mean
    if size_of_one is None and l1 is not None and size:
        size_of_one = l1 / size
    value = summary.mean if size == 1 or size_of_one is None else size_of_one
    if size == 1 and lost:
        value = _NAN
    return (
        _NAN if value is None else value,
        lost,
        size or _NAN,
        _NAN if l1 is None or update is None or not l1 else update / l1,
        summary.inactive_units / summary.units
        if summary.units and summary.inactive_units is not None
        else _NAN,
    )


def _run_meta(meta: _Meta) -> RunMeta | None:
    if meta.run_id is None:
        return None
    return RunMeta(meta.run_id, meta.prev_step, meta.resumed_from, started=meta.started)

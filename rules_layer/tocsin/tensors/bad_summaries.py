"""Leaves out the summaries of an index file that cannot be used, so that all else in it can."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, TypeVar

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from tocsin.model import TensorSummary

MOST_ENTRIES = 100_000  # of a payload
_MOST_REASONS = 100

T = TypeVar("T")


class _Entry(msgspec.Struct, gc=False):
    """An entry of an index file as it stands there, except for keys that no reader knows."""

    tensorname: str
    start_idx: Raw | UnsetType = UNSET
    length: Raw | UnsetType = UNSET
    shape: Raw | UnsetType = UNSET
    dtype: Raw | UnsetType = UNSET
    role: Raw | UnsetType = UNSET
    kind: Raw | UnsetType = UNSET
    crc32: Raw | UnsetType = UNSET
    summary: Raw | UnsetType = UNSET
    originalname: Raw | UnsetType = UNSET
    inline: Raw | UnsetType = UNSET
    shard: Raw | UnsetType = UNSET


_Payload = Annotated[list[_Entry], Meta(max_length=MOST_ENTRIES)]


class _Document(msgspec.Struct):
    meta: Raw
    tensor_payload: _Payload | None = None
    shape_payload: _Payload | None = None


_document = msgspec.json.Decoder(_Document)
_summary = msgspec.json.Decoder(TensorSummary | None)


def decoded(decoder: msgspec.json.Decoder[T], data: bytes) -> tuple[T, Mapping[str, str]]:
    """Return what ``decoder`` reads in an index file, and why some tensors have no summary in it.

    A file without a bad summary is read once. Raises what the decoder raises for all else that is
    wrong in the file.
    """
    try:
        return decoder.decode(data), {}
    except msgspec.ValidationError as error:
        if ".summary" not in str(error):
            raise
    document = _document.decode(data)
    reasons: dict[str, str] = {}
    for entry in [*(document.tensor_payload or ()), *(document.shape_payload or ())]:
        if entry.summary is not UNSET and (why := _fault(entry.summary)):
            entry.summary = UNSET
            if len(reasons) < _MOST_REASONS:
                reasons[entry.tensorname] = why
    return decoder.decode(msgspec.json.encode(document)), reasons


def _fault(summary: Raw) -> str:
    """Return why a summary cannot be used, in one line; "" if it can."""
    try:
        _summary.decode(summary)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        return f"its summary cannot be used: {error}"
    return ""

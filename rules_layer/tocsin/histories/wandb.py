"""The local folder of Weights & Biases: ``run-ID.wandb``, a log of records.

The log has blocks of 32 KiB of records, which may continue in the next block. A record is a
message of which the history is read: a row of names and values as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from tocsin.histories.scalar import BadHistory, Note, Row, check_size
from tocsin.tensors import protobuf as pb

_HEADER = b":W&B"
_BLOCK = 32 << 10
_HEAD = 7  # bytes before a record: checksum 4, length 2, type 1
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_MOST_BYTES = 256 << 20
_HISTORY = 2  # the field of a record
_ITEM = 1  # of a history; of an item: key, parts of a nested key, value
_KEY, _NESTED, _JSON = 1, 2, 16


def is_wandb(head: bytes) -> bool:
    """Return whether a file begins as a log of Weights & Biases."""
    return head.startswith(_HEADER)


def wandb_logs(folder: Path) -> list[Path]:
    """Return the logs of the runs in a folder: of one run, or ``wandb`` with its runs."""
    found = {*folder.glob("*.wandb"), *folder.glob("*run-*/*.wandb")}
    found |= {*folder.glob("wandb/*run-*/*.wandb")}
    return sorted(path for path in found if path.is_file() and not path.parent.is_symlink())


class WandbLog:
    """The history of a run, as its log has it."""

    form = "Weights & Biases"

    def __init__(self, path: Path) -> None:
        self.path = path
        self._count = 0

    def read(self, note: Note, *, growing: bool = False) -> Iterator[Row]:
        check_size(self.path)
        if self.path.stat().st_size > _MOST_BYTES:
            raise BadHistory(f"{self.path} has more than {_MOST_BYTES:,} bytes: export the history")
        rows: list[Row] = []
        try:
            records = _records(memoryview(self.path.read_bytes()))
            rows.extend(row for record in records if (row := _row(record)))
        except (pb.Malformed, ValueError) as error:
            note(f"{self.path}: a damaged record ({error}); everything before it is read")
        new, self._count = rows[self._count :], max(len(rows), self._count)
        yield from new


def _records(data: memoryview) -> Iterator[memoryview]:
    position, parts = _HEAD, bytearray()
    while position + _HEAD <= len(data):
        left = _BLOCK - position % _BLOCK
        if left < _HEAD:
            position += left
            continue
        length = int.from_bytes(data[position + 4 : position + 6], "little")
        kind = data[position + 6]
        position += _HEAD
        if length > len(data) - position or kind not in (_FULL, _FIRST, _MIDDLE, _LAST):
            if kind == 0 and length == 0:
                return  # the rest of a file that was not closed
            if kind in (_FULL, _FIRST, _MIDDLE, _LAST):
                return  # it is still being written
            raise ValueError(f"a record of type {kind}")
        if kind in (_FULL, _FIRST):
            parts = bytearray()
        parts += data[position : position + length]
        position += length
        if kind in (_FULL, _LAST):
            yield memoryview(bytes(parts))


def _row(record: memoryview) -> Row:
    row: dict[str, object] = {}
    for number, history in pb.fields(record):
        if number != _HISTORY or not isinstance(history, memoryview):
            continue
        for field, item in pb.fields(history):
            if field == _ITEM and isinstance(item, memoryview):
                key, value = _item(item)
                if key:
                    row[key] = value
    return row


def _item(item: memoryview) -> tuple[str, object]:
    keys, nested, value = "", [], None
    for field, content in pb.fields(item):
        if field == _KEY:
            keys = pb.as_text(content)
        elif field == _NESTED:
            nested.append(pb.as_text(content))
        elif field == _JSON:
            value = json.loads(pb.as_text(content))
    return keys or "/".join(nested), value

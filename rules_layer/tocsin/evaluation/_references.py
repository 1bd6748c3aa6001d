"""Where the earlier saves lie that rules look back at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from tocsin.model import Mode, TensorSummary
from tocsin.rules import Read
from tocsin.tensors import Entry, IndexFile

MOST_REFERENCES = 20_000  # of a run: the checkpoint is read and written at every step
UPDATE_FIELDS = frozenset({"update_l1", "update_l2"})
DETAIL_FIELDS = ("quantiles", "bounds", "units", "inactive_units", "unit_active", "channels")


@dataclass(frozen=True)
class Reference:
    """An earlier save of a tensor: its summary if it was captured, its record if there is one."""

    step: int
    event_key: str | None = None
    start: int | None = None
    length: int | None = None
    summary: TensorSummary | None = None

    def file(self, name: str, worker: str) -> tuple[IndexFile, Entry]:
        """As much of the index file as is needed to read the record."""
        entry = Entry(name=name, start=self.start, length=self.length)
        index = IndexFile(self.step, worker, Mode.GLOBAL, self.step, self.event_key, None, (entry,))
        return index, entry


References = Mapping[str, tuple[Reference, ...]]


def reference_key(mode: Mode, worker: str, name: str) -> str:
    return f"{mode.name}/{worker}/{name}"


def depth(read: Read) -> int:
    """How many earlier saves a read needs: those it asks for, or one to tell an update from."""
    return max(read.back, int(not UPDATE_FIELDS.isdisjoint(read.fields)))


def remembered(
    references: References, file: IndexFile, entry: Entry, summary: TensorSummary, most: int
) -> tuple[Reference, ...]:
    """The references of a tensor with this save and its summary in front, ``most`` in all.

    Of the summary only the plain numbers: what rules ask for beyond can be 100 kB.
    """
    key = reference_key(file.mode, file.worker, entry.name)
    event_key = file.event_key if entry.start is not None else None
    this = Reference(file.step, event_key, entry.start, entry.length, _plain(summary))
    return (this, *references.get(key, ()))[:most]


def _plain(summary: TensorSummary) -> TensorSummary:
    if all(getattr(summary, name) is None for name in DETAIL_FIELDS):
        return summary
    return msgspec.structs.replace(summary, **dict.fromkeys(DETAIL_FIELDS))

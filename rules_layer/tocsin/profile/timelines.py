"""The hook's timelines as minutes need them: which are of a minute, and its steps."""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import islice

from tocsin.profile.amazon_minutes import Timed, timed
from tocsin.profile.reading import FoundEvents, Note, event_files, read_events
from tocsin.tensors import Object, Storage

_KINDS = ("pythontimeline", "model_timeline")  # others have no steps
_MINUTE = 60_000_000  # µs
_MOST_FILES = 200_000
_KEPT = 200_000  # events, of files that were read last


class Timelines:
    """The timelines from the hour of a minute on, listed once. Not for several threads."""

    def __init__(self, storage: Storage, after: int | None, note: Note) -> None:
        self._storage, self._note = storage, note
        self._series: dict[str, dict[tuple[str, str], list[FoundEvents]]] = {}
        self._read: OrderedDict[str, list[Timed]] = OrderedDict()
        self._kept = 0
        for each in islice(event_files(storage, after), _MOST_FILES):
            place = each.place
            if place.kind in _KINDS:
                of_node = self._series.setdefault(place.node, {})
                of_node.setdefault((place.worker, place.kind), []).append(each)
        for of_node in self._series.values():
            for files in of_node.values():
                files.sort(key=lambda each: each.place.end)

    def is_awaited(self, minute: int, node: str) -> bool:
        """Return whether the node has timelines, and none yet from after the minute."""
        of_node = self._series.get(node, {})
        ends = [files[-1].place.end for files in of_node.values()]
        return bool(ends) and max(ends) < (minute + 1) * _MINUTE

    def events(self, minute: int, node: str) -> list[Timed] | None:
        """Return the events that ended in the minute; None without any data."""
        found = [
            each
            for files in self._series.get(node, {}).values()
            for each in _of_minute(files, minute)
        ]
        return [event for each in found for event in self._events(each)] if found else None

    def minutes(self) -> Iterator[tuple[int, str, Object]]:
        """Yield the minutes in which something ended, by node, each with one of its files. Reads
        all."""
        there: dict[tuple[int, str], Object] = {}
        for node, of_node in self._series.items():
            for each in (each for files in of_node.values() for each in files):
                for event in self._events(each):
                    if 0 <= event.end // _MINUTE <= each.place.minute:
                        there[event.end // _MINUTE, node] = each.found
        for minute, node in sorted(there):
            yield minute, node, there[minute, node]

    def _events(self, file: FoundEvents) -> list[Timed]:
        key = file.found.key
        known = self._read.pop(key, None)
        if known is None:
            known = timed(read_events(self._storage, file.place, file.found, self._note))
            self._kept += len(known)
        self._read[key] = known
        while self._kept > _KEPT and len(self._read) > 1:
            self._kept -= len(self._read.popitem(last=False)[1])
        return known


def _of_minute(files: Sequence[FoundEvents], minute: int) -> Iterator[FoundEvents]:
    """Yield the events that end in the minute, and the first that ends after it."""
    first = bisect_left(files, minute * _MINUTE, key=lambda each: each.place.end)
    for each in files[first:]:
        yield each
        if each.place.end >= (minute + 1) * _MINUTE:
            return

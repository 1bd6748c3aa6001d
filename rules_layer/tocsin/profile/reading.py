"""Reads the files of Amazon's profiler in a folder ``profiler-output``: samples and events."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timezone
from itertools import chain, islice
from typing import NamedTuple

from tocsin.profile.content import MOST_BYTES, BadProfile, read_text
from tocsin.profile.framework import TraceEvent, decode_trace
from tocsin.profile.keys import (
    FRAMEWORK,
    INCREMENTAL,
    PEVENTS,
    SYSTEM,
    TENSORFLOW,
    Anchor,
    EventFile,
    SystemFile,
    anchor,
    detailed_folder,
    event_file,
    is_unreadable_profile,
    system_file,
)
from tocsin.profile.system import Sample, decode_samples
from tocsin.tensors import NotFound, Object, RefusedFile, Storage

Note = Callable[[str], None]
"""Called with a line for people: something could not be read, the rest was."""

UNREADABLE_PROFILE = "a profile of TensorFlow, which is not read: open it in TensorBoard"
_MOST_FILES = 200_000
_ERRORS = (RefusedFile, NotFound, PermissionError)
_DETAILED_KIND = "tensorflow"
_DETAILED_BYTES = 256 << 20  # unpacked


class FoundSamples(NamedTuple):
    place: SystemFile
    found: Object


class FoundEvents(NamedTuple):
    place: EventFile
    found: Object


def log(line: str) -> None:
    logging.getLogger("tocsin").warning("%s", line)


def has_profiler_files(storage: Storage) -> bool:
    """Return whether there are files of Amazon's profiler."""
    return any(_any(storage, prefix) for prefix in (SYSTEM, FRAMEWORK))


def unreadable_profile(storage: Storage) -> str | None:
    """Return the first of TensorFlow's profiles, where it is all that there is; else None."""
    if any(_any(storage, each) for each in (SYSTEM, PEVENTS)):
        return None
    listed = islice(chain(storage.list(FRAMEWORK), storage.list(TENSORFLOW)), 1000)
    keys = (found.key for found in listed)
    return next((key for key in keys if is_unreadable_profile(key) or detailed_folder(key)), None)


def system_samples(
    storage: Storage,
    start: float | None = None,
    end: float | None = None,
    note: Note = log,
) -> Iterator[Sample]:
    """Yield the system metrics of all nodes from ``start`` until before ``end`` (seconds since the
    epoch), in the order of files: by minute, then node.

    Lines that cannot be read are left out, and so are files; ``note`` says which.
    """
    after = None if start is None else int(start // 60)
    for place, found in system_files(storage, after):
        is_outside = (start is not None and place.start + 60 <= start) or (
            end is not None and place.start >= end
        )
        if is_outside:
            continue
        try:
            samples = read_samples(storage, found, note)
        except _ERRORS as error:
            note(str(error))
            continue
        for sample in samples:
            if (start is None or sample.time >= start) and (end is None or sample.time < end):
                yield sample


def trace_events(
    storage: Storage,
    start: float | None = None,
    end: float | None = None,
    note: Note = log,
) -> Iterator[TraceEvent]:
    """Yield the framework's events that touch the time from ``start`` until ``end`` (seconds since
    the epoch), in the order of files: the hook's timelines first, then TensorFlow's traces.

    What cannot be read is left out; ``note`` says which.
    """
    files = event_files(storage, None if start is None else int(start // 60))
    for place, found in _touching(list(files), start, end):
        yield from _within(read_events(storage, place, found, note), start, end)
    for found, dated in _detailed(storage, note):
        dating = dated.worker, _DETAILED_KIND, dated.start
        events = _read(storage, found, *dating, note, _DETAILED_BYTES)
        yield from _within(events, start, end)


def system_files(storage: Storage, after: int | None = None) -> Iterator[FoundSamples]:
    """Return the files of system metrics, lazily. ``after``: from the hour of this minute on, at
    least."""
    start = ""
    if after is not None:
        first = next(storage.list(SYSTEM), None)
        in_hours = first is not None and first.key.startswith(f"{INCREMENTAL}20")
        start = f"{INCREMENTAL}{_hour(after)}/" if in_hours else ""
    listed = storage.list(SYSTEM, start)
    return (FoundSamples(place, found) for found in listed if (place := system_file(found.key)))


def event_files(storage: Storage, after: int | None = None) -> Iterator[FoundEvents]:
    """Return the hook's timelines, lazily. ``after``: from the hour of this minute on, at least."""
    start = "" if after is None else f"{PEVENTS}{_hour(after)}/"
    listed = storage.list(PEVENTS, start)
    return (FoundEvents(place, found) for found in listed if (place := event_file(found.key)))


def read_samples(storage: Storage, found: Object, note: Note) -> Sequence[Sample]:
    """Return the samples of a file. Raises NotFound, RefusedFile, and BadProfile where no line is
    one."""
    samples, broken = decode_samples(read_text(storage, found.key))
    if broken and not samples:
        raise BadProfile(
            f"{found.key} of run {storage.url}: no line is a system metric: remove the file"
        )
    _note_broken(note, storage, found, broken)
    return samples


def read_events(
    storage: Storage, place: EventFile, found: Object, note: Note
) -> Iterator[TraceEvent]:
    """Return the events of a timeline; none if it cannot be read."""
    return _read(storage, found, place.worker, place.kind, 0, note)


def _read(
    storage: Storage,
    found: Object,
    worker: str,
    kind: str,
    base: int,
    note: Note,
    limit: int = MOST_BYTES,
) -> Iterator[TraceEvent]:
    try:
        text = read_text(storage, found.key, limit)
    except _ERRORS as error:
        note(str(error))
        return iter(())
    events, broken = decode_trace(text, worker, kind, base)
    _note_broken(note, storage, found, broken)
    return events


def _note_broken(note: Note, storage: Storage, found: Object, broken: int) -> None:
    if broken:
        lines = "line that is" if broken == 1 else "lines that are"
        note(f"{found.key} of run {storage.url}: skipped {broken:,} {lines} incomplete")


def _touching(
    files: Sequence[FoundEvents], start: float | None, end: float | None
) -> Iterator[FoundEvents]:
    """Without files that ended before, and those that follow one that reaches beyond the end."""
    if len(files) > _MOST_FILES:
        raise BadProfile(f"more than {_MOST_FILES:,} timelines: name a time")
    beyond = set[tuple[str, str]]()
    for each in sorted(files, key=lambda each: (each.place, each.found.key)):
        of = each.place.worker, each.place.kind
        if (start is not None and each.place.end < start * 1e6) or of in beyond:
            continue
        yield each
        if end is not None and each.place.end >= end * 1e6:
            beyond.add(of)


def _within(
    events: Iterator[TraceEvent], start: float | None, end: float | None
) -> Iterator[TraceEvent]:
    return (
        event
        for event in events
        if (start is None or event.end >= start * 1e6) and (end is None or event.start < end * 1e6)
    )


def _detailed(storage: Storage, note: Note) -> Iterator[tuple[Object, Anchor]]:
    """TensorFlow's traces, each with the file that has its date."""
    traces: list[tuple[str, Object]] = []
    anchors: dict[str, Anchor] = {}
    for found in chain(storage.list(FRAMEWORK), storage.list(TENSORFLOW)):
        if is_unreadable_profile(found.key):
            note(f"{found.key} of run {storage.url}: {UNREADABLE_PROFILE}")
        elif folder := detailed_folder(found.key):
            traces.append((folder, found))
        elif dated := anchor(found.key):
            anchors[dated.folder] = dated
    for folder, found in traces:
        if folder in anchors:
            yield found, anchors[folder]
        else:
            note(f"{found.key} of run {storage.url}: skipped: no .metadata file gives its date")


def _hour(minute: int) -> str:
    return f"{datetime.fromtimestamp(60 * minute, timezone.utc):%Y%m%d%H}"


def _any(storage: Storage, prefix: str) -> bool:
    return any(
        system_file(found.key) or event_file(found.key) or detailed_folder(found.key)
        for found, _ in zip(storage.list(prefix), range(1000), strict=False)
    )

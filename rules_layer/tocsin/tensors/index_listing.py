"""The index files that are in a run: listed in the order of steps, and read."""

from __future__ import annotations

from collections.abc import Iterator

from tocsin.tensors.index import BadIndex, IndexFile, decode_index
from tocsin.tensors.layout import (
    INDEX,
    LONG_STEP,
    after_step,
    has_more_digits,
    index_key,
    parse_index_key,
    right_after_step,
)
from tocsin.tensors.storage import NotFound, Object, Storage

_LIMIT = 64 * 1024 * 1024


def read_index(storage: Storage, found: Object) -> IndexFile:
    """Return the index file at an object's key. Raises BadIndex, NotFound, RefusedFile."""
    place = parse_index_key(found.key)
    if place is None:
        raise BadIndex("key is not that of an index file")
    return decode_index(storage.read(found.key, limit=_LIMIT), *place)


def index_at(storage: Storage, step: int, worker: str) -> IndexFile | None:
    """Return the index file of a step and worker; None if it cannot be used."""
    try:
        return read_index(storage, Object(index_key(step, worker), 0, 0.0))
    except (ValueError, NotFound, PermissionError):
        return None


def index_objects(storage: Storage, after: int = -1, *, longer: bool = True) -> Iterator[Object]:
    """Yield the index files of the steps after ``after``, in the order of steps.

    Lazy as the listing is, but for steps of more than 12 digits: they come last, and are listed
    too early. From step 10¹¹ on that means to list nearly all that there is. There, without
    ``longer``, steps of more digits than ``after`` are left out, and the listing begins right after
    it.
    """
    longer = longer or after < LONG_STEP // 10
    late: list[tuple[int, str, Object]] = []
    for found in storage.list(INDEX, after_step(after) if longer else right_after_step(after)):
        place = parse_index_key(found.key)
        if place is None or place[0] <= after:
            continue
        if not longer:
            if not has_more_digits(place[0], after):
                yield found
        elif place[0] < LONG_STEP:
            yield found
        else:
            late.append((place[0], found.key, found))
    for _, _, found in sorted(late, key=lambda item: item[:2]):
        yield found

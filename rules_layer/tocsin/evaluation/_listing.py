"""What lies in the bucket behind the frontier."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from tocsin.evaluation._desk import Desk
from tocsin.evaluation._frontier import Seen
from tocsin.evaluation._restart import of_last_start
from tocsin.tensors import (
    BadIndex,
    NotFound,
    Object,
    RefusedFile,
    index_objects,
    parse_index_key,
    read_index,
)

BATCH_BYTES = 8 << 20  # of index files; decoded they are several times as large
STEP_INDEX_BYTES = 64 << 20  # of one step, all workers together
_THREADS = 16


def new_files(desk: Desk, most: int, deadline: float) -> tuple[list[Seen], bool]:
    """Index files after the frontier, whole steps of them, and whether there are more.

    Skips what earlier starts of the job left there, until ``deadline``.
    """
    after = desk.checkpoint.frontier
    while True:
        listed, last, more = _batch(desk, most, after)
        seen, desk.checkpoint = of_last_start(desk.checkpoint, listed, desk.storage)
        if seen or not more:
            return seen, more
        if desk.world.now() >= deadline:
            return seen, False  # nothing to continue with: all that was found is superseded
        after = last


def _batch(desk: Desk, most: int, after: int) -> tuple[list[Seen], int, bool]:
    """Index files after a step, the last step of them, and whether there are still more.

    About ``most`` of them, fewer if they are large; of a single step no more than may be in
    memory at once, the others are refused.
    """
    found: list[Object] = []
    more, last, size, of_step = False, after, 0, 0
    for item in index_objects(desk.storage, after):
        place = parse_index_key(item.key)
        step = place[0] if place else -1
        if step != last:
            if len(found) >= most or size > BATCH_BYTES:
                more = True
                break
            last, of_step = step, 0
        of_step += item.size
        if of_step > STEP_INDEX_BYTES:
            desk.refuse(item.key, f"the step's index files have over {STEP_INDEX_BYTES} bytes")
            continue
        size += item.size
        found.append(item)
    fresh = [item for item in found if item.key not in desk.checkpoint.refused]
    return list(_read_all(desk, fresh)), last, more


def _read_all(desk: Desk, objects: list[Object]) -> Iterator[Seen]:
    """Their contents, fetched at once; those that cannot be used are refused."""

    def read(item: Object) -> Seen | Exception:
        try:
            return Seen(read_index(desk.storage, item), item.modified)
        except (BadIndex, RefusedFile, NotFound, PermissionError) as error:
            return error

    if len(objects) < 2:
        answers = list(map(read, objects))
    else:
        with ThreadPoolExecutor(min(_THREADS, len(objects))) as pool:
            answers = list(pool.map(read, objects))
    for item, answer in zip(objects, answers, strict=True):
        if isinstance(answer, Seen):
            yield answer
        elif not isinstance(answer, NotFound):
            desk.refuse(item.key, str(answer))

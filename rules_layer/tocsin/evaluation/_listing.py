"""What lies in the bucket behind the frontier."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from tocsin.evaluation._desk import Desk
from tocsin.evaluation._frontier import Seen
from tocsin.tensors import (
    BadIndex,
    NotFound,
    Object,
    TooLarge,
    after_step,
    parse_index_key,
    read_index,
)

_THREADS = 16


def new_files(desk: Desk, batch: int) -> tuple[list[Seen], bool]:
    """Index files behind the frontier, whole steps of them, and whether there are still more."""
    found: list[Object] = []
    more = False
    last = None
    for item in desk.storage.list("index/", after=after_step(desk.checkpoint.frontier)):
        place = parse_index_key(item.key)
        if place is None or place[0] <= desk.checkpoint.frontier:
            continue
        if len(found) >= batch and place[0] != last:
            more = True
            break
        found.append(item)
        last = place[0]
    fresh = [item for item in found if item.key not in desk.checkpoint.refused]
    return list(_read_all(desk, fresh)), more


def _read_all(desk: Desk, objects: list[Object]) -> Iterator[Seen]:
    """Their contents, fetched at once; those that cannot be used are refused."""

    def read(item: Object) -> Seen | BadIndex | TooLarge | NotFound:
        try:
            return Seen(read_index(desk.storage, item), item.modified)
        except (BadIndex, TooLarge, NotFound) as error:
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

"""Collections files: which tensors belong together, and how many workers a run has."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from tocsin.tensors.in_parallel import in_parallel
from tocsin.tensors.layout import COLLECTIONS, parse_collections_key
from tocsin.tensors.patterns import search
from tocsin.tensors.reductions import base_name
from tocsin.tensors.storage import Object, RefusedFile, Storage

_LIMIT = 16 * 1024 * 1024
_MOST_LISTED = 10_000  # files of a run: one of each worker
_MOST_READ = 100  # at each look after a new one: what they say repeats itself
_MOST_BYTES = 64 * 1024 * 1024  # of all that are read
_MAX_PATTERNS = 1000  # of a file: each is tried on every name
_Text = Annotated[str, Meta(max_length=4096)]


class BadCollections(ValueError):
    """A collections file cannot be used; the message is the reason, in one line."""


@dataclass(frozen=True)
class Collection:
    """A named set of tensors: those listed, and those whose name a pattern matches.

    The configurations are those of the hook that wrote the file, as in the file.
    """

    name: str
    include_regex: tuple[str, ...] = ()
    tensor_names: tuple[str, ...] = ()
    reduction_config: Mapping[str, Any] | None = None
    save_config: Mapping[str, Any] | None = None
    save_histogram: bool = True

    def contains(self, tensor: str) -> bool:
        """Return whether a tensor, or the tensor that a reduction is of, belongs. Raises
        BadPattern."""
        name = base_name(tensor)
        return self.lists(name) or any(search(p, name) for p in self.include_regex)

    def lists(self, name: str) -> bool:
        """Return whether the collection lists a tensor by its name."""
        return name in self._listed

    @cached_property
    def _listed(self) -> frozenset[str]:
        return frozenset(self.tensor_names)


@dataclass(frozen=True)
class Collections:
    """The collections of a run, joined over ``workers``, those that have written a file.

    Of very many workers only some files are joined: see ``read_collections``.
    """

    num_workers: int
    collections: Mapping[str, Collection] = field(default_factory=dict)
    workers: tuple[str, ...] = ()


class _Collection(msgspec.Struct, frozen=True):
    name: _Text | None = None
    include_regex: tuple[_Text, ...] = ()
    tensor_names: tuple[_Text, ...] = ()
    reduction_config: dict[str, Any] | None = None
    save_config: dict[str, Any] | None = None
    save_histogram: bool = True


class _Workers(msgspec.Struct, frozen=True):
    num_workers: Annotated[int, Meta(ge=1, le=1_000_000)]


class _CollectionsFile(msgspec.Struct, frozen=True, rename={"workers": "_meta"}):
    collections: dict[_Text, _Collection]
    workers: _Workers


_decoder = msgspec.json.Decoder(_CollectionsFile)


def decode_collections(data: bytes, worker: str) -> Collections:
    """Return the collections file of one worker. Raises BadCollections."""
    if not data:
        raise BadCollections("file is empty")
    try:
        document = _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadCollections(str(error)) from None
    patterns = sum(len(found.include_regex) for found in document.collections.values())
    if patterns > _MAX_PATTERNS:
        raise BadCollections(f"has {patterns:,} patterns, more than {_MAX_PATTERNS:,}")
    collections = {
        name: Collection(
            name,
            found.include_regex,
            found.tensor_names,
            found.reduction_config,
            found.save_config,
            found.save_histogram,
        )
        for name, found in document.collections.items()
    }
    return Collections(document.workers.num_workers, collections, (worker,))


def read_collections(storage: Storage) -> Collections | None:
    """Return the collections of all workers' files together; None while there is none.

    The number of workers is that of the first file. Of more than 100 files, or of more than
    64 MiB, only some are read, evenly distributed: workers that hold different parts of a model
    are neighbours. Raises BadCollections with the key.
    """
    listed = islice(storage.list(COLLECTIONS), _MOST_LISTED)
    files = {found: worker for found in listed if (worker := parse_collections_key(found.key))}

    def read(found: Object) -> Collections:
        try:
            return decode_collections(storage.read(found.key, limit=_LIMIT), files[found])
        except RefusedFile as error:
            raise BadCollections(str(error)) from None
        except ValueError as error:
            raise BadCollections(f"{found.key} of run {storage.url}: {error}") from None

    joined: Collections | None = None
    for own in in_parallel(read, _to_read(list(files))):
        joined = own if joined is None else _join(joined, own)
    return joined and replace(joined, workers=tuple(files.values()))


def encode_collections(collections: Iterable[Collection], num_workers: int = 1) -> bytes:
    """Return the bytes of one worker's collections file, exactly as smdebug writes them."""
    document = {
        "collections": {
            collection.name: {
                "name": collection.name,
                "include_regex": collection.include_regex,
                "tensor_names": sorted(collection.tensor_names),
                "reduction_config": collection.reduction_config,
                "save_config": collection.save_config,
                "save_histogram": collection.save_histogram,
            }
            for collection in collections
        },
        "_meta": {"num_workers": num_workers},
    }
    return json.dumps(document).encode()


def _to_read(files: Sequence[Object]) -> list[Object]:
    """The files to read: all, or some that are evenly distributed; always the first."""
    size = max(1, sum(found.size for found in files))
    number = min(len(files), _MOST_READ, max(1, _MOST_BYTES * len(files) // size))
    chosen: list[Object] = []
    left = _MOST_BYTES
    for found in (files[at * len(files) // number] for at in range(number)):
        if not chosen or found.size <= left:
            chosen.append(found)
            left -= found.size
    return chosen


def _join(first: Collections, other: Collections) -> Collections:
    collections = dict(first.collections)
    for name, collection in other.collections.items():
        known = collections.get(name, collection)
        collections[name] = replace(
            known,
            include_regex=_union(known.include_regex, collection.include_regex),
            tensor_names=_union(known.tensor_names, collection.tensor_names),
        )
    return Collections(first.num_workers, collections, first.workers + other.workers)


def _union(first: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    return first if first == other else tuple(dict.fromkeys(first + other))

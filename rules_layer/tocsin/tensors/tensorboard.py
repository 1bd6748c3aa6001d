"""A run as TensorBoard reads it: single numbers as scalars, tensors as histograms."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from time import time as wall_clock
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from tocsin.tensors import protobuf as pb
from tocsin.tensors.crc32c import crc32c, mask
from tocsin.tensors.dtypes import is_text
from tocsin.tensors.encoding import head, moment, step_field
from tocsin.tensors.event import FOOT, TIME, Unreadable
from tocsin.tensors.index import Entry, IndexFile
from tocsin.tensors.layout import index_key, worker_part
from tocsin.tensors.moments import moments
from tocsin.tensors.storage import Storage
from tocsin.tensors.values import read_timed_values

_VERSION = pb.message(3, b"brain.Event:2")
_SHOWN = ("min", "max", "mean", "variance", "l2")
_BUCKETS = 30
_STRING = 7  # the type of a tensor of texts

_Floats = NDArray[np.float64]


def export_tensorboard(
    storage: Storage, indexes: Iterable[IndexFile], folder: Path | str, *, by_worker: bool = False
) -> list[Path]:
    """Write what ``indexes`` name, in the order of steps, into ``folder``; returns the event files.

    As with smdebug's option export_tensorboard there is a folder for each mode, and steps are
    global ones; ``by_worker`` gives each worker a folder in it. A tensor that is known by its
    summary only has the scalars ``<name>/mean`` and so on. Strings, and values that cannot be read
    or have no finite element, are left out. Raises OSError where files cannot be written.
    """
    files: dict[Path, BinaryIO] = {}
    with ExitStack() as opened:
        for index in indexes:
            place = Path(folder) / index.mode.name
            place = place / worker_part(index.worker) if by_worker else place
            for time, value in _values(storage, index):
                if place not in files:
                    files[place] = opened.enter_context(_begin(place, index, time))
                step = step_field(index.step)
                event = moment(time, step) + pb.message(5, pb.message(1, value))
                files[place].write(_framed(event))
    return sorted(Path(file.name) for file in files.values())


def append_text(file: Path, tag: str, step: int, text: str) -> None:
    """Append a text of a step to an event file, which is made at the first one."""
    shape = pb.message(2, pb.message(2, pb.integer(1, 1)))
    tensor = pb.integer(1, _STRING) + shape + pb.message(8, text.encode())
    plugin = pb.message(9, pb.message(1, pb.message(1, b"text")))
    value = pb.message(1, tag.encode()) + pb.message(8, tensor) + plugin
    now = wall_clock()
    event = moment(now, step_field(step)) + pb.message(5, pb.message(1, value))
    with file.open("ab") as opened:
        if not opened.tell():
            opened.write(_framed(moment(now, b"") + _VERSION))
        opened.write(_framed(event))


def _begin(place: Path, index: IndexFile, time: float) -> BinaryIO:
    """The file of one mode and worker, named after its first step; one so named is replaced."""
    place.mkdir(parents=True, exist_ok=True)
    file = (place / f"{index.step:012d}_{worker_part(index.worker)}.tfevents").open("wb")
    file.write(_framed(moment(time, b"") + _VERSION))
    return file


def _framed(event: bytes) -> bytes:
    """A record with a true checksum: TensorBoard refuses the constant of smdebug's records."""
    return head(len(event)) + event + FOOT.pack(mask(crc32c(event)))


def _values(storage: Storage, index: IndexFile) -> Iterator[tuple[float, bytes]]:
    """The values and summaries of an index file: times, and messages Summary.Value."""
    recorded = read_timed_values(storage, index)
    for name, found in recorded.items():
        if not isinstance(found, Unreadable) and not is_text(found[1].dtype):
            time, value = found
            real = np.abs(value) if value.dtype.kind == "c" else value
            if value.size == 1:
                yield time, _scalar(name, float(real.item()))
            elif len(finite := real[np.isfinite(real)].astype(np.float64)):
                yield time, _histogram(name, finite)
    known = [entry for entry in index.entries if entry.name not in recorded and entry.summary]
    if known:
        time = storage.head(index_key(index.step, index.worker)).modified
        for entry in known:
            yield from ((time, value) for value in _summary(entry))


def _summary(entry: Entry) -> Iterator[bytes]:
    for name in _SHOWN:
        number = getattr(entry.summary, name)
        if number is not None:
            yield _scalar(f"{entry.name}/{name}", number)


def _scalar(name: str, number: float) -> bytes:
    with np.errstate(over="ignore"):
        content = np.array(number, dtype="<f4").tobytes()
    return pb.message(1, name.encode()) + b"\x15" + content


def _histogram(name: str, values: _Floats) -> bytes:
    """Equal buckets from the lowest to the highest element, as TensorFlow 2 makes them."""
    found = moments(values)
    if math.isfinite(found.maximum - found.minimum):
        counts, limits = np.histogram(values, bins=_BUCKETS)
    else:
        counts, limits = np.array([found.finite]), np.array([found.minimum, found.maximum])
    numbers = (found.minimum, found.maximum, found.finite, found.mean * found.finite, found.l2**2)
    message = b"".join(
        pb.varint(field << 3 | 1) + TIME.pack(number) for field, number in enumerate(numbers, 1)
    )
    message += pb.message(6, limits[1:].astype("<f8").tobytes())
    message += pb.message(7, counts.astype("<f8").tobytes())
    return pb.message(1, name.encode()) + pb.message(5, message)

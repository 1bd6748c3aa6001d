"""A run as TensorBoard reads it: single numbers as scalars, tensors as histograms."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from tocsin.tensors import _protobuf as pb
from tocsin.tensors._crc32c import crc32c, mask
from tocsin.tensors._dtypes import is_text
from tocsin.tensors._encoding import head, moment, step_field
from tocsin.tensors._event import FOOT, TIME, Unreadable
from tocsin.tensors._index import Entry, IndexFile
from tocsin.tensors._layout import index_key, worker_part
from tocsin.tensors._moments import moments
from tocsin.tensors._run import Run
from tocsin.tensors._values import read_timed_values

_VERSION = pb.message(3, b"brain.Event:2")
_SHOWN = ("min", "max", "mean", "variance", "l2")
_BUCKETS = 30

_Floats = NDArray[np.float64]


def export_tensorboard(
    run: Run, folder: Path | str, advance: Callable[[int, int], None] = lambda done, total: None
) -> list[Path]:
    """Write every readable step into ``folder``; returns the event files written.

    As with smdebug's option export_tensorboard there is a folder for each mode, and steps are
    global ones; several workers get a folder each in it. Of a tensor that is known by its summary
    only there are the scalars ``<name>/mean`` and so on. Strings, and values that cannot be read
    or have no finite element, are left out. ``advance`` is told how many steps are done, and of
    how many. Raises OSError where files cannot be written.
    """
    steps = run.steps(incomplete=True)
    several = len(run.workers) > 1
    files: dict[Path, BinaryIO] = {}
    with ExitStack() as opened:
        for done, step in enumerate(steps):
            advance(done, len(steps))
            for worker, index in run.indexes(step).items():
                place = Path(folder) / index.mode.name
                place = place / worker_part(worker) if several else place
                for time, value in _values(run, index):
                    if place not in files:
                        files[place] = opened.enter_context(_begin(place, index, time))
                    event = moment(time, step_field(step)) + pb.message(5, pb.message(1, value))
                    files[place].write(_framed(event))
        advance(len(steps), len(steps))
    return sorted(Path(file.name) for file in files.values())


def _begin(place: Path, index: IndexFile, time: float) -> BinaryIO:
    """The file of one mode and worker, named after its first step; one so named is replaced."""
    place.mkdir(parents=True, exist_ok=True)
    file = (place / f"{index.step:012d}_{worker_part(index.worker)}.tfevents").open("wb")
    file.write(_framed(moment(time, b"") + _VERSION))
    return file


def _framed(event: bytes) -> bytes:
    """A record with a true checksum: TensorBoard refuses the constant of smdebug's records."""
    return head(len(event)) + event + FOOT.pack(mask(crc32c(event)))


def _values(run: Run, index: IndexFile) -> Iterator[tuple[float, bytes]]:
    """What there is to show of an index file: times, and messages Summary.Value."""
    recorded = read_timed_values(run.storage, index)
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
        time = run.storage.head(index_key(index.step, index.worker)).modified
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

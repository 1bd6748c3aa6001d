"""The names of the profiler's files: their node or worker, and their minute."""

from __future__ import annotations

import re
from typing import NamedTuple

from tocsin.tensors import END_MARKER, index_key

SYSTEM, FRAMEWORK = "system/", "framework/"
PEVENTS = f"{FRAMEWORK}pevents/"
INCREMENTAL = f"{SYSTEM}incremental/"
TENSORFLOW = "plugins/profile/"
"""Where TensorFlow's profiler writes by itself, without the hook that dates its traces."""
ENDS = (f"{SYSTEM}{END_MARKER}", f"{FRAMEWORK}{END_MARKER}")

_GZIP = r"(?:\.gz)?"
_SYSTEM = re.compile(rf"system/(?:[^/]+/){{1,4}}(\d{{10}})\.(algo-\d{{1,6}})\.json{_GZIP}")
_PEVENTS = re.compile(
    rf"framework/pevents/\d{{10}}/([1-4]\d{{15}})_([^/_]{{1,200}})_(\w{{1,60}})\.json{_GZIP}"
)
_DETAILED = re.compile(
    r"(framework/[^/]+/detailed_profiling/\d{10}/\d{1,18}/)(?:[^/]+/){0,6}[^/]+\.trace\.json(?:\.gz)?"
)
_METADATA = re.compile(
    r"(framework/[^/]+/detailed_profiling/\d{10}/\d{1,18}/)(?:[^/]+/){0,6}"
    r"([^/_]{1,200})_([1-4]\d{15})_\d{16}\.metadata"
)
_OF_A_RUN = re.compile(r"((?:.+/)?profiler-output)/((?:system|framework)/.+)")
_WORKER = re.compile(r"(\d{1,18})-(.+)")


class SystemFile(NamedTuple):
    """A minute of samples of a node; ``start`` in seconds since the epoch."""

    start: int
    node: str

    @property
    def minute(self) -> int:
        return self.start // 60


class EventFile(NamedTuple):
    """Events of a worker that ended until ``end``, in µs since the epoch.

    ``kind``: ``pythontimeline``, ``model_timeline``, ``horovod_timeline`` …
    """

    end: int
    worker: str
    kind: str

    @property
    def node(self) -> str:
        return node_of(self.worker)

    @property
    def minute(self) -> int:
        return self.end // 60_000_000


class Anchor(NamedTuple):
    """The empty file that dates traces of TensorFlow's profiler in the same folder: their worker
    and their beginning, in µs since the epoch.
    """

    folder: str
    worker: str
    start: int


def system_file(key: str) -> SystemFile | None:
    match = _SYSTEM.fullmatch(key)
    return SystemFile(int(match[1]), match[2]) if match else None


def event_file(key: str) -> EventFile | None:
    match = _PEVENTS.fullmatch(key)
    return EventFile(int(match[1]), match[2], match[3]) if match else None


def detailed_folder(key: str) -> str | None:
    """Return the folder of a step that a trace of TensorFlow's profiler is in."""
    match = _DETAILED.fullmatch(key)
    return match[1] if match else None


def is_unreadable_profile(key: str) -> bool:
    """Return whether a file is a profile of TensorFlow that cannot be read: ``xplane.pb``, as it
    writes since 2.11, or a trace that nothing dates."""
    return key.endswith(".xplane.pb") or key.startswith(TENSORFLOW)


def anchor(key: str) -> Anchor | None:
    match = _METADATA.fullmatch(key)
    return Anchor(match[1], match[2], int(match[3])) if match else None


def node_of(worker: str) -> str:
    """Return the node of a worker ``RANK-NODE``, as system metrics name it."""
    match = _WORKER.fullmatch(worker)
    return match[2] if match else worker


def worker_order(worker: str) -> tuple[int, str]:
    """Sort workers of a node by their rank or process."""
    match = _WORKER.fullmatch(worker)
    return (int(match[1]), worker) if match else (-1, worker)


def split_profiler_key(key: str) -> tuple[str, str] | None:
    """As ``split_key``, for a file of Amazon's profiler: the run and the key of the minute that it
    belongs to, or of the end marker.
    """
    match = _OF_A_RUN.fullmatch(key)
    if match is None:
        return None
    run, inside = match[1], match[2]
    if inside in ENDS:
        return run, END_MARKER
    if found := system_file(inside):
        return run, index_key(found.minute, found.node)
    events = event_file(inside)
    return (run, index_key(events.minute, events.node)) if events else None

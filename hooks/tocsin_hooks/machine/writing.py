"""Writes minutes that were not measured: for examples, and for tests of rules."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping

from tocsin.model import Mode
from tocsin.profile.minute import Minute, entries
from tocsin.tensors import RunWriter, open_storage


def write_minutes(run: str, minutes: Iterable[Minute | Mapping[str, Minute]]) -> None:
    """Write a whole machine run: minutes of one machine, or of several by name.

    >>> write_minutes("/tmp/job/profiler-output", [Minute(durations={"TRAIN": [0.5] * 100})] * 10)
    """
    storage = open_storage(run)
    writers: dict[str, RunWriter] = {}
    for number, minute in enumerate(minutes):
        nodes = {"node_0": minute} if isinstance(minute, Minute) else minute
        for name, own in nodes.items():
            if name not in writers:
                writers[name] = RunWriter(storage, name, run_id=uuid.uuid4().hex)
                writers[name].write_collections((), len(nodes))
            writers[name].write(number, Mode.GLOBAL, number, entries(own))
    for name, writer in writers.items():
        writer.close(marker=name == next(iter(writers)))

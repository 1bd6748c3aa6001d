"""System metrics: JSON lines that SageMaker's agent writes, a file for each node and minute."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

_Word = Annotated[str, Meta(max_length=200)]


class Sample(
    msgspec.Struct,
    frozen=True,
    gc=False,
    rename={
        "type": "Type",
        "name": "Name",
        "dimension": "Dimension",
        "value": "Value",
        "node": "NodeId",
        "time": "Timestamp",
    },
):
    """One metric at one time, in seconds since the epoch.

    ``type``: ``cpu``, ``gpu``, ``memory``, ``i/o``, ``network``. ``name``: the device (``cpu0``),
    else the metric. ``dimension``: the metric of a device; ``Algorithm`` or ``Platform``; else "".
    """

    type: _Word
    value: float
    time: Annotated[float, Meta(ge=0, lt=5e9)]
    dimension: _Word = ""
    node: _Word = ""
    name: _Word | None = None


_decoder = msgspec.json.Decoder(Sample)


def decode_samples(data: bytes) -> tuple[list[Sample], int]:
    """Return the samples of a file, and how many of its lines are not one."""
    try:
        return _decoder.decode_lines(data), 0
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    samples, broken = [], 0
    for line in data.splitlines():
        if line.strip():
            try:
                samples.append(_decoder.decode(line))
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                broken += 1
    return samples, broken

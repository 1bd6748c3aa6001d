"""Step traces: what PyTorch's profiler recorded of a few steps, on request.

``TRACE.json`` in the run asks for one, ``traces/answer.json`` says whether it was made, and the
traces lie beside that.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec

from tocsin.tensors.layout import worker_part
from tocsin.tensors.storage import Object, Storage

TRACES = "traces/"
TRACE_ANSWER = f"{TRACES}answer.json"
MOST_TRACE_BYTES = 50_000_000  # of a file as it is stored: viewers cannot open much more
MOST_TRACED_STEPS = 20
_SUFFIX = ".pt.trace.json.gz"  # what TensorBoard and Holistic Trace Analysis look for


class TraceRequest(msgspec.Struct, frozen=True):
    """``TRACE.json``. ``id`` names the request, ``steps`` are those to record."""

    id: Annotated[str, msgspec.Meta(max_length=100)]
    requested_at: datetime
    steps: Annotated[int, msgspec.Meta(ge=1, le=MOST_TRACED_STEPS)] = 3


class TraceAnswer(msgspec.Struct, frozen=True):
    """The answer to the request ``id``. ``key`` and ``bytes`` are those of a written trace,
    ``detail`` says why there is none, or what to know of it.
    """

    id: str
    state: Literal["accepted", "written", "refused"]
    key: str | None = None
    bytes: int = 0
    detail: str = ""


_request = msgspec.json.Decoder(TraceRequest)
_answer = msgspec.json.Decoder(TraceAnswer)


def decode_trace_request(content: bytes) -> TraceRequest:
    """Raises ValueError for anything else. A time without a zone is in UTC."""
    return _request.decode(content)


def decode_trace_answer(content: bytes) -> TraceAnswer:
    """Raises ValueError for anything else."""
    return _answer.decode(content)


def trace_key(worker: str, nanoseconds: int) -> str:
    """Return the key of a worker's trace that was written at this time, since 1970."""
    return f"{TRACES}{worker_part(worker)}.{nanoseconds}{_SUFFIX}"


def traces_of(storage: Storage) -> list[Object]:
    """Return the step traces of a run, oldest first."""
    found = [item for item in storage.list(TRACES) if item.key.endswith(_SUFFIX)]
    return sorted(found, key=lambda item: (item.modified, item.key))

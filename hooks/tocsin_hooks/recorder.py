"""Records a few steps with PyTorch's profiler on request: ``tocsin trace RUN``."""

from __future__ import annotations

import gzip
import io
import logging
import sys
import tempfile
import threading
import time
from contextlib import suppress
from datetime import timezone
from pathlib import Path
from typing import Any

import msgspec
from tocsin.model import Mode
from tocsin.tensors import (
    MOST_TRACE_BYTES,
    TRACE,
    TRACE_ANSWER,
    Storage,
    TraceAnswer,
    TraceRequest,
    decode_trace_request,
    trace_key,
)

from tocsin_hooks.guard import Guard
from tocsin_hooks.poller import optional

_log = logging.getLogger("tocsin")
_LIMIT = 64 * 1024  # bytes of a request
_EVERY = 3  # looks of the poller, of which one is for a request: each costs a call
_APART = 600.0  # seconds between the beginnings of two recordings
_LONGEST = 120.0  # seconds of a recording: it ends at the next step then
_MOST_PLAIN = 2**30  # bytes of a trace before it is compressed
_CHUNK = 1 << 20
_SKEW = 60.0  # seconds by which clocks may differ


class StepRecorder:
    """Looks for a request in the background, records in the training's thread, writes in the
    background.

    The profiler is there for some steps of training only, at most each ten minutes, and what it
    recorded is written if it is at most 50 MB. A request from long before ``started`` was for an
    earlier start of the job and is ignored.
    """

    def __init__(self, storage: Storage, worker: str, started: float) -> None:
        self._storage = storage
        self._worker = worker
        self._started = started
        self._looks = 0
        self._known: str | None = None  # the last request that was answered
        self._request: TraceRequest | None = None  # set by the poller, taken by the training
        self._profiler: Any = None
        self._begun: float | None = None
        self._ready: Any = None  # the profiler that has recorded all it was to
        self._detail = ""
        self._writing: threading.Thread | None = None

    def look(self) -> None:
        """Read the request if there is one, and answer it. Raises ValueError for a bad one."""
        self._looks += 1
        if (self._looks - 1) % _EVERY or self._request is not None:
            return
        content = optional(self._storage.read, TRACE, _LIMIT)
        if content is None:
            return
        request = decode_trace_request(content)
        when = request.requested_at
        when = when if when.tzinfo else when.replace(tzinfo=timezone.utc)
        if request.id == self._known or when.timestamp() < self._started - _SKEW:
            return
        why_not = self._refusal()
        self._answer(TraceAnswer(request.id, "refused" if why_not else "accepted", detail=why_not))
        self._known = request.id
        if not why_not:
            self._request = request

    @property
    def is_asked(self) -> bool:
        """Return whether steps are to be recorded, or are at present."""
        return self._request is not None

    def step_begins(self, mode: Mode) -> None:
        """A step begins, in the training's thread. Records it if that was asked for."""
        if self._request is None:
            return
        with Guard(self._failed, "a step trace"):
            if self._profiler is not None:
                self._go_on(mode)
            elif mode is Mode.TRAIN and self._writing is None:
                self._start(self._request.steps)

    def stop(self) -> None:
        """End a recording before its time, in the training's thread: the training is over."""
        if self._profiler is not None:
            with Guard(self._failed, "a step trace"):
                self._end("the training ended before all steps were recorded")

    def wait(self, timeout: float) -> None:
        """Wait until the recording is written, at most ``timeout`` seconds."""
        if (writing := self._writing) is not None:
            writing.join(timeout)

    def _refusal(self) -> str:
        """Return why nothing can be recorded now; empty if something can."""
        if "torch" not in sys.modules:
            return "the training does not use PyTorch, whose profiler records the steps"
        if self._begun is not None and (since := time.monotonic() - self._begun) < _APART:
            return (
                f"the last trace is {since / 60:.0f} min old, and at most one is recorded in "
                f"{_APART / 60:.0f} min"
            )
        return ""

    def _start(self, steps: int) -> None:
        import torch

        if torch.autograd._profiler_enabled():
            raise RuntimeError("the training itself is using PyTorch's profiler")
        self._begun = time.monotonic()
        self._ready, self._detail = None, ""
        self._profiler = torch.profiler.profile(
            schedule=torch.profiler.schedule(wait=0, warmup=1, active=steps, repeat=1),
            on_trace_ready=self._is_ready,
        )
        self._profiler.start()

    def _go_on(self, mode: Mode) -> None:
        if mode is not Mode.TRAIN:  # of any length
            self._end("an evaluation began before all steps were recorded")
        elif self._begun is not None and time.monotonic() - self._begun > _LONGEST:
            self._end(f"the recording was ended after {_LONGEST:.0f} s")
        else:
            self._profiler.step()
            if self._ready is not None:
                self._end("")

    def _is_ready(self, profiler: Any) -> None:
        self._ready = profiler

    def _end(self, detail: str) -> None:
        """Stop the profiler. The recording is written in the background."""
        profiler, self._profiler, self._detail = self._profiler, None, detail
        profiler.stop()
        if self._ready is None:
            raise RuntimeError(detail or "nothing was recorded")
        self._in_background(self._ready)
        self._ready = None

    def _failed(self, what: str, error: Exception) -> None:
        """The recording cannot go on: answer so, and let go of the profiler."""
        profiler, self._profiler = self._profiler, None
        self._detail = str(error) or type(error).__name__
        if profiler is not None:
            with suppress(Exception):  # it may be what failed
                profiler.stop()
        self._ready = None  # also what it gave when it was stopped
        self._in_background(None)

    def _in_background(self, recorded: Any) -> None:
        writing = threading.Thread(
            target=self._finish, args=(recorded,), name="tocsin-trace", daemon=True
        )
        self._writing = writing
        try:
            writing.start()
        except RuntimeError:  # the interpreter is about to exit
            self._finish(recorded)

    def _finish(self, recorded: Any) -> None:
        """Write the recording and the answer, also after errors."""
        request = self._request
        if request is None:
            return
        answer = TraceAnswer(request.id, "refused", detail=self._detail)
        try:
            if recorded is not None:
                data = _compressed(recorded)
                key = trace_key(self._worker, time.time_ns())
                self._storage.write(key, data)
                answer = TraceAnswer(request.id, "written", key, len(data), self._detail)
        except Exception as error:  # noqa: BLE001 - it is answered, and the training goes on
            answer = TraceAnswer(request.id, "refused", detail=str(error) or type(error).__name__)
        if answer.state == "refused":
            _log.warning("no step trace: %s", answer.detail)
        with suppress(Exception):  # storage is away, which the other files show
            self._answer(answer)
        self._writing = None
        self._request = None

    def _answer(self, answer: TraceAnswer) -> None:
        self._storage.write(TRACE_ANSWER, msgspec.json.encode(answer))


def _compressed(recorded: Any) -> bytes:
    """Return a trace as it is stored. Raises ValueError if it is too large."""
    with tempfile.TemporaryDirectory(prefix="tocsin-trace-") as folder:
        plain = Path(folder) / "trace.json"
        recorded.export_chrome_trace(str(plain))
        size = plain.stat().st_size
        if size > _MOST_PLAIN:
            raise ValueError(f"the trace has {size / 1e6:.0f} MB: ask for fewer steps")
        packed = io.BytesIO()
        with plain.open("rb") as source, gzip.GzipFile(fileobj=packed, mode="wb") as target:
            while chunk := source.read(_CHUNK):
                target.write(chunk)
                if packed.tell() > MOST_TRACE_BYTES:
                    break
        if packed.tell() > MOST_TRACE_BYTES:
            most = f"{MOST_TRACE_BYTES / 1e6:.0f} MB"
            raise ValueError(f"the trace has more than {most}: ask for fewer steps")
        return packed.getvalue()

"""``tocsin trace``: asks a training's hook for a step trace, and waits for it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec

from tocsin.cli.errors import CommandError
from tocsin.tensors import (
    INDEX,
    TRACE,
    TRACE_ANSWER,
    NotFound,
    Storage,
    TraceAnswer,
    TraceRequest,
    decode_trace_answer,
    read_end,
)

_PAUSE = 1.0  # seconds between two looks for the answer
_MOST_BYTES = 64 * 1024


def trace_of(
    storage: Storage,
    steps: int,
    timeout: float,
    say: Callable[[str], None],
    wait: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> TraceAnswer:
    """Return the answer about a trace that is written. Raises CommandError where none is.

    timeout: in seconds. say: gets a line when the training has taken the request up.
    """
    if _has_ended(storage):
        raise CommandError(
            f"{storage.url} has ended, so no training can record a trace: name a run that trains"
        )
    request = TraceRequest(uuid.uuid4().hex, datetime.now(UTC), steps)
    storage.write(TRACE, msgspec.json.encode(request))
    say(f"wrote {storage.url}/{TRACE}: the hook of the training checks for it regularly")
    until, accepted = clock() + timeout, False
    while True:
        answer = _answer(storage, request.id)
        if answer is not None and answer.state == "refused":
            raise CommandError(f"no trace was made: {answer.detail}")
        if answer is not None and answer.state == "written":
            if answer.detail:
                say(answer.detail)
            return answer
        if answer is not None and not accepted:
            accepted = True
            say(f"the training records {steps} steps, after one to warm up")
        if _has_ended(storage):
            raise CommandError(f"{storage.url} has ended before the trace was made")
        if clock() >= until:
            raise CommandError(
                f"the training takes longer than {timeout:g} s: the trace will be in "
                f"{storage.url}/traces"
                if accepted
                else f"no hook answered in {timeout:g} s: is the training running, and may it read "
                f"{TRACE} and write to {storage.url}?"
            )
        wait(_PAUSE)


def _has_ended(storage: Storage) -> bool:
    """Return whether there is an end marker and no step was saved after it, as by a resumed
    training."""
    end = read_end(storage)
    if end is None:
        return False
    return all(found.modified <= end.modified for found in storage.list(INDEX))


def _answer(storage: Storage, request: str) -> TraceAnswer | None:
    """The answer to this request; None while there is none."""
    try:
        answer = decode_trace_answer(storage.read(TRACE_ANSWER, _MOST_BYTES))
    except (NotFound, PermissionError):  # S3 says so of a missing file where none may be listed
        return None
    except ValueError as error:
        raise CommandError(f"{storage.url}/{TRACE_ANSWER} is not an answer: {error}") from error
    return answer if answer.id == request else None

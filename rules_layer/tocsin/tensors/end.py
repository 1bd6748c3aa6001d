"""The end marker: a file that says that a run is complete."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import msgspec

from tocsin.tensors.layout import END_MARKER
from tocsin.tensors.storage import NotFound, Storage

_LIMIT = 64 * 1024


@dataclass(frozen=True)
class End:
    """When the job ended (seconds since the epoch), and which start of it.

    ``modified`` is when the marker was written, unless that was long after the end.
    ``run_id`` is None for a marker of smdebug, of SageMaker, or of ``evaluate``.
    """

    modified: float
    run_id: str | None = None

    def ends(self, current: Collection[str], newest: float) -> bool:
        """Whether it ends the ``current`` start (its run ids), and not an earlier one only.

        ``newest`` is when the newest index file was written. The marker of another start counts
        if nothing was written after it: a job that resumes at its end has nothing to save.
        """
        return self.run_id is None or self.run_id in current or self.modified >= newest


class _Content(msgspec.Struct, frozen=True, omit_defaults=True):
    run_id: str | None = None
    ended_at: float | None = None


_decoder = msgspec.json.Decoder(_Content)


def read_end(storage: Storage) -> End | None:
    """The end marker, None while there is none. Raises RefusedFile for what is not a file."""
    try:
        found = storage.head(END_MARKER)
        content = storage.read(END_MARKER, limit=_LIMIT) if found.size else b"{}"
    except NotFound:
        return None
    try:
        known = _decoder.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return End(found.modified)
    ended_at = found.modified if known.ended_at is None else min(known.ended_at, found.modified)
    return End(ended_at, known.run_id)


def encode_end(run_id: str | None = None, ended_at: float | None = None) -> bytes:
    """The marker's content: nothing where neither is known, as smdebug writes it."""
    if run_id is None and ended_at is None:
        return b""
    return msgspec.json.encode(_Content(run_id, ended_at))

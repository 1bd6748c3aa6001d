"""The end marker: a file that says that a run is complete."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import msgspec

from tocsin.tensors._layout import END_MARKER
from tocsin.tensors._storage import NotFound, Storage

_LIMIT = 64 * 1024


@dataclass(frozen=True)
class End:
    """When the marker was written (seconds since the epoch), and by which start of the job.

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


class _Content(msgspec.Struct, frozen=True):
    run_id: str | None = None


_decoder = msgspec.json.Decoder(_Content)


def read_end(storage: Storage) -> End | None:
    """The end marker, None while there is none. Raises RefusedFile for what is not a file."""
    try:
        found = storage.head(END_MARKER)
        content = storage.read(END_MARKER, limit=_LIMIT) if found.size else b"{}"
    except NotFound:
        return None
    try:
        return End(found.modified, _decoder.decode(content).run_id)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return End(found.modified)


def encode_end(run_id: str | None) -> bytes:
    """What the marker holds: nothing without a ``run_id``, as smdebug writes it."""
    return b"" if run_id is None else msgspec.json.encode(_Content(run_id))

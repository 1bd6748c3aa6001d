"""The end marker: a file that says that a run is complete."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import msgspec

from tocsin.model import TrainingJobStatus
from tocsin.tensors.layout import END_MARKER
from tocsin.tensors.storage import NotFound, Storage

_LIMIT = 64 * 1024


@dataclass(frozen=True)
class End:
    """The end of a job: its time (seconds since the epoch) and its start's run id.

    ``modified`` is when the marker was written, unless that was long after the end.
    ``run_id`` is that of the hook that wrote it. ``starts`` are the run ids that ``evaluate`` knew
    when it wrote the marker for SageMaker. A marker of smdebug or of SageMaker names none.
    ``status`` is the TrainingJobStatus that SageMaker gave the job.
    """

    modified: float
    run_id: str | None = None
    starts: tuple[str, ...] = ()
    status: TrainingJobStatus | None = None

    @property
    def named(self) -> frozenset[str]:
        """The starts that it names."""
        return frozenset(self.starts if self.run_id is None else (self.run_id, *self.starts))

    def names(self, current: Collection[str]) -> bool:
        """Return whether it names one of the ``current`` starts."""
        return not self.named.isdisjoint(current)

    def ends(self, current: Collection[str], newest: float) -> bool:
        """Return whether it ends the ``current`` start (its run ids), and not an earlier one only.

        ``newest`` is when the newest index file was written. The marker of another start counts
        if nothing was written after it: a job that resumes at its end has nothing to save.
        """
        nobodys = not self.named
        return nobodys or self.names(current) or self.modified >= newest


class _Content(msgspec.Struct, frozen=True, omit_defaults=True):
    run_id: str | None = None
    ended_at: float | None = None
    starts: tuple[str, ...] = ()
    status: TrainingJobStatus | None = None


_decoder = msgspec.json.Decoder(_Content)


def read_end(storage: Storage) -> End | None:
    """Return the end marker, None while there is none. Raises RefusedFile for what is not a
    file."""
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
    return End(ended_at, known.run_id, known.starts, known.status)


def encode_end(
    run_id: str | None = None,
    ended_at: float | None = None,
    starts: Iterable[str] = (),
    status: TrainingJobStatus | None = None,
) -> bytes:
    """Return the marker's content: nothing where none of it is known, as smdebug writes it."""
    content = _Content(run_id, ended_at, tuple(sorted({*starts})), status)
    return b"" if content == _Content() else msgspec.json.encode(content)

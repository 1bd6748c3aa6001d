"""``tocsin status``: lists the runs that the deployed stack knows, from its checkpoints."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tocsin.aws.clients import real_client
from tocsin.aws.fleet import StoredRun, stored_runs
from tocsin.cli.errors import CommandError
from tocsin.cli.output import Document, note, progress
from tocsin.cli.run_list import row


def runs_document(bucket: str) -> Document:
    """Return the JSON of ``tocsin status``: a line per run, the newest first.

    A checkpoint that cannot be read is left out, with a note on stderr.
    """
    with progress("reading") as advance:
        found = [run for _, run in stored_runs(real_client("s3"), bucket, advance=advance)]
    for run in found:
        if run.unreadable:
            note(f"{run.key}: {run.unreadable}")
    return {"runs": _rows(found)}


@dataclass
class StackRuns:
    """The runs of a stack, look by look: a checkpoint is read again when it was written."""

    bucket: str
    _known: dict[tuple[str, str], StoredRun] = field(default_factory=dict)

    def look(self) -> Document:
        found = list(stored_runs(real_client("s3"), self.bucket, known=self._known))
        self._known = {(run.key, tag): run for tag, run in found}
        return {"runs": _rows(run for _, run in found)}


def _rows(runs: Iterable[StoredRun]) -> list[Document]:
    return [row(run.checkpoint, run.modified) for run in runs if not run.unreadable]


def run_of_job(job: str, bucket: str) -> str:
    """Return the URL of the run of a job. Raises CommandError unless it has exactly one."""
    runs = [run["run"] for run in runs_document(bucket)["runs"] if run["job"] == job]
    if len(runs) == 1:
        return str(runs[0])
    if not runs:
        raise CommandError(
            f"the stack knows no run of a job {job}: `tocsin status` lists all runs; a job that "
            "fails before its first step has none"
        )
    raise CommandError(f"job {job} has {len(runs)} runs: name one, such as {runs[0]}")

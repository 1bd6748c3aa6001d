"""``tocsin status``: lists the runs that the deployed stack knows, from its checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from tocsin.aws.clients import CONNECTIONS, real_client
from tocsin.aws.settings import CHECKPOINTS
from tocsin.cli.display import styled
from tocsin.cli.errors import CommandError
from tocsin.cli.not_judged import nothing_judged
from tocsin.cli.output import Document, note, notes, progress
from tocsin.cli.verdicts import status_text
from tocsin.evaluation import Checkpoint, check, decode_checkpoint, document
from tocsin.events import worst
from tocsin.tensors import COLLECTIONS, INDEX, open_storage


def runs_document(bucket: str) -> Document:
    """The JSON of ``tocsin status``: a line per run, the newest first.

    A checkpoint that cannot be read is left out, with a note on stderr.
    """
    s3 = real_client("s3")
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=CHECKPOINTS)
    found = [item for page in pages for item in page.get("Contents", ())]
    found.sort(key=lambda item: item["LastModified"], reverse=True)
    runs = []
    with ThreadPoolExecutor(CONNECTIONS) as pool, progress("reading") as advance:
        rows = pool.map(lambda item: _row(s3, bucket, item), found)
        for done, (item, row) in enumerate(zip(found, rows, strict=True), start=1):
            if isinstance(row, ValueError):
                note(f"{item['Key']}: {row}")
            else:
                runs.append(row)
            advance(done, len(found))
    return {"runs": runs}


def runs_below(folder: Path) -> Document:
    """The JSON of ``tocsin status FOLDER``: the runs in a local folder, judged here and now.

    Raises CommandError if there are none.
    """
    found = sorted({path.parent for name in (INDEX, COLLECTIONS) for path in folder.rglob(name)})
    if not found:
        raise CommandError(f"{folder}: no run is in this folder")
    runs = []
    with progress("evaluating") as advance:
        for done, path in enumerate(found, start=1):
            storage = open_storage(path)
            checkpoint, report = check(storage)
            notes(report.log)
            newest = max((item.modified for item in storage.list(INDEX)), default=0.0)
            runs.append(_document(checkpoint, datetime.fromtimestamp(newest, UTC)))
            advance(done, len(found))
    return {"runs": runs}


def run_of_job(job: str, bucket: str) -> str:
    """The URL of the run of a job. Raises CommandError if there is none, or several."""
    runs = [run["run"] for run in runs_document(bucket)["runs"] if run["job"] == job]
    if len(runs) == 1:
        return str(runs[0])
    if not runs:
        raise CommandError(f"the stack knows no run of a job {job}: `tocsin status` lists all runs")
    raise CommandError(f"job {job} has {len(runs)} runs: name one, such as {runs[0]}")


def _row(s3: Any, bucket: str, item: Mapping[str, Any]) -> Document | ValueError:
    answer = s3.get_object(Bucket=bucket, Key=item["Key"])
    try:
        checkpoint = decode_checkpoint(answer["Body"].read())
    except ValueError as error:
        return error
    return _document(checkpoint, item["LastModified"])


def _document(checkpoint: Checkpoint, modified: datetime) -> Document:
    known = document(checkpoint)
    status = worst(record.status for record in checkpoint.rules.values())
    return {
        "job": known["job"],
        "run": known["run"],
        "finished": known["finished"],
        "last_step": known["steps"]["last"],
        "RuleEvaluationStatus": status.value if status else None,
        "judged": not nothing_judged(known),
        "LastModifiedTime": modified.astimezone(UTC).isoformat(timespec="seconds"),
    }


def print_runs(document: Document, console: Console) -> None:
    """Prints three lines for each run."""
    if not document["runs"]:
        console.print("no run has been evaluated yet")
        return
    for run in document["runs"]:
        status = status_text(run["RuleEvaluationStatus"], judged=run["judged"])
        console.print(Text.assemble(status, "  ", styled(run["job"], "bold")))
        step = "no step yet" if run["last_step"] is None else f"step {run['last_step']}"
        state = "finished" if run["finished"] else "running"
        updated = run["LastModifiedTime"][:16].replace("T", " ")
        console.print(f"  {step}, {state}, {updated} UTC")
        console.print(Text("  ").append_text(styled(run["run"], "dim")), soft_wrap=True)

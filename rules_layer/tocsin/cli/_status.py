"""``tocsin status``: the runs that the deployed stack knows, from its checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC
from typing import Any

from rich.console import Console
from rich.text import Text

from tocsin.cli._look import table
from tocsin.cli._not_judged import nothing_judged
from tocsin.cli._output import Document, note, progress
from tocsin.cli._stack import CONNECTIONS, aws
from tocsin.cli._text import plain
from tocsin.cli._verdicts import status_text, worst
from tocsin.evaluation import decode_checkpoint, document

_CHECKPOINTS = "checkpoints/"


def runs_document(bucket: str) -> Document:
    """The JSON of ``tocsin status``: a line per run, the newest first.

    A checkpoint that cannot be read is left out, with a word on stderr.
    """
    s3 = aws("s3")
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=_CHECKPOINTS)
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


def _row(s3: Any, bucket: str, item: Mapping[str, Any]) -> Document | ValueError:
    answer = s3.get_object(Bucket=bucket, Key=item["Key"])
    try:
        checkpoint = decode_checkpoint(answer["Body"].read())
    except ValueError as error:
        return error
    known = document(checkpoint)
    status = worst(record.status for record in checkpoint.rules.values())
    return {
        "job": known["job"],
        "run": known["run"],
        "finished": known["finished"],
        "last_step": known["steps"]["last"],
        "RuleEvaluationStatus": status.value if status else None,
        "judged": not nothing_judged(known),
        "LastModifiedTime": item["LastModified"].astimezone(UTC).isoformat(timespec="seconds"),
    }


def print_runs(document: Document, console: Console) -> None:
    """The runs as a table."""
    if not document["runs"]:
        console.print("no run has been evaluated yet")
        return
    grid = table()
    grid.add_column("status", no_wrap=True)
    grid.add_column("run", overflow="fold")
    grid.add_column("last step", justify="right", no_wrap=True)
    grid.add_column("state", no_wrap=True)
    grid.add_column("updated (UTC)", no_wrap=True)
    for run in document["runs"]:
        grid.add_row(
            status_text(run["RuleEvaluationStatus"], judged=run["judged"]),
            Text("\n").join((plain(run["job"], "bold"), plain(run["run"], "dim"))),
            plain("-" if run["last_step"] is None else run["last_step"]),
            "finished" if run["finished"] else "running",
            plain(run["LastModifiedTime"][:16].replace("T", " ")),
        )
    console.print(grid)

"""The runs of a deployment, the newest first, from their checkpoints; and their table in HTML."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from html import escape
from itertools import islice
from typing import Any
from urllib.parse import quote

from tocsin.aws.clients import CONNECTIONS
from tocsin.aws.reports import console_link, has_report, report_key
from tocsin.aws.settings import CHECKPOINTS
from tocsin.evaluation import Checkpoint, decode_checkpoint, document, state_of
from tocsin.report import headline
from tocsin.tensors import job_name, step_text
from tocsin.words import clean

MOST_ROWS = 50

DOCUMENTATION = """\
## Tocsin: runs
The runs that were evaluated last, at most 50: status, verdict, last step, the run's
files and its report.
No parameters.
"""
"""The answer to CloudWatch's request ``{"describe": true}``."""

_HEADS = ("Status", "Job", "Verdict", "Step", "Updated", "Report")
_LEVELS = {
    "critical": "▲ critical",
    "warning": "▲ warning",
    "ok": "✓ no issues",
    "none": "– not judged",
}


@dataclass(frozen=True)
class StoredRun:
    """A run's checkpoint, and when it was written. ``unreadable``: why it cannot be read."""

    key: str
    checkpoint: Checkpoint
    modified: datetime
    unreadable: str = ""


def stored_runs(
    s3: Any,
    bucket: str,
    most: int | None = None,
    known: Mapping[tuple[str, str], StoredRun] | None = None,
    advance: Callable[[int, int], None] = lambda done, total: None,
) -> Iterator[tuple[str, StoredRun]]:
    """ETag and checkpoint of each run, the newest first. Reads those that are not ``known``."""
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=CHECKPOINTS)
    found = [item for page in pages for item in page.get("Contents", ())]
    found.sort(key=lambda item: item["LastModified"], reverse=True)
    found = found[:most]

    def read(item: Mapping[str, Any]) -> StoredRun:
        earlier = (known or {}).get((item["Key"], item["ETag"]))
        return earlier or _read(s3, bucket, item)

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        for done, (item, run) in enumerate(zip(found, pool.map(read, found), strict=True), 1):
            advance(done, len(found))
            yield item["ETag"], run


def fleet_table(runs: Iterable[StoredRun], now: datetime, region: str, bucket: str) -> str:
    """Return the widget: a table of at most MOST_ROWS runs. CloudWatch shows no script and no
    frame.

    bucket: where the runs' reports are.
    """
    rows = [_row(run, now, region, bucket) for run in islice(runs, MOST_ROWS)]
    if not rows:
        return "<p>No run has been evaluated yet.</p>"
    heads = "".join(f"<th>{name}</th>" for name in _HEADS)
    return f"<table><tr>{heads}</tr>{''.join(rows)}</table>"


def _read(s3: Any, bucket: str, item: Mapping[str, Any]) -> StoredRun:
    content = s3.get_object(Bucket=bucket, Key=item["Key"])["Body"].read()
    try:
        return StoredRun(item["Key"], decode_checkpoint(content), item["LastModified"])
    except ValueError as error:
        return StoredRun(item["Key"], Checkpoint(""), item["LastModified"], str(error))


def _row(run: StoredRun, now: datetime, region: str, bucket: str) -> str:
    if run.unreadable:
        cells: Sequence[str] = ("– unreadable", _text(run.key), _text(run.unreadable), "", "", "")
    else:
        found = document(run.checkpoint)
        verdict = headline(found)
        job = _text(job_name(run.checkpoint.run))
        last = run.checkpoint.last_step
        cells = (
            _LEVELS[verdict.level],
            f'<a href="{_files(run.checkpoint.run, region)}">{job}</a>',
            _text(verdict.sentence),
            "" if last is None else step_text(run.checkpoint.run, last).removeprefix("step "),
            f"{_ago((now - run.modified).total_seconds())} ago, {state_of(found)}",
            _report(run.checkpoint, region, bucket),
        )
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _report(checkpoint: Checkpoint, region: str, bucket: str) -> str:
    """A link to the run's report in the console, once there is one."""
    if not has_report(checkpoint):
        return ""
    link = console_link(bucket, report_key(checkpoint.run), region)
    return f'<a href="{escape(link)}">report</a>'


def _files(run: str, region: str) -> str:
    """The address of a run's files in the console."""
    bucket, _, prefix = run.removeprefix("s3://").partition("/")
    place = f"https://{region}.console.aws.amazon.com/s3/buckets/{quote(bucket, safe='')}"
    return escape(f"{place}?region={region}&prefix={quote(prefix, safe='/')}/")


def _text(value: str) -> str:
    return escape(clean(value))


def _ago(seconds: float) -> str:
    minutes = max(0, int(seconds // 60))
    if minutes < 120:
        return f"{minutes} min"
    return f"{minutes // 60} h" if minutes < 2880 else f"{minutes // 1440} d"

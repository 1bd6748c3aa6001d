"""``tocsin status``: what the deployed stack knows of runs, from its checkpoints."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError
from rich.console import Console
from rich.text import Text

from tocsin.cli._errors import Problem
from tocsin.cli._look import table
from tocsin.cli._output import Document, note, progress
from tocsin.cli._text import plain
from tocsin.cli._verdicts import status_text, worst
from tocsin.evaluation import decode_checkpoint, document
from tocsin.evaluation.aws import S3Checkpoints

VARIABLE = "TOCSIN_STATE_BUCKET"
STACK = "Tocsin"
_OUTPUT = "StateBucketName"
_CHECKPOINTS = "checkpoints/"
_CONNECTIONS = 16


def aws(service: str) -> Any:
    """A client of whatever AWS the environment names."""
    config = Config(
        retries={"mode": "standard", "max_attempts": 5},
        max_pool_connections=_CONNECTIONS,
        connect_timeout=5,
        read_timeout=30,
    )
    return boto3.client(service, config=config)


def find_bucket(bucket: str | None, stack: str | None) -> str:
    """The bucket named, that of the stack named, the environment's, or the default stack's."""
    if bucket:
        return bucket
    if stack is None and (bucket := os.environ.get(VARIABLE)):
        return bucket
    return stack_output(aws("cloudformation"), stack or STACK, _OUTPUT)


def stack_output(cloudformation: Any, stack: str, name: str) -> str:
    """An output of a deployed stack. Raises Problem where there is none."""
    hint = f"name the bucket with --state-bucket or {VARIABLE}, or the stack with --stack"
    try:
        found = cloudformation.describe_stacks(StackName=stack)["Stacks"][0]
    except ClientError as error:
        if error.response["Error"]["Code"] != "ValidationError":
            raise
        raise Problem(f"there is no stack {stack}: {hint}") from error
    for output in found.get("Outputs", ()):
        if output["OutputKey"] == name:
            return str(output["OutputValue"])
    raise Problem(f"stack {stack} has no output {name}: {hint}")


def run_document(run: str, bucket: str) -> Document:
    """The JSON of ``tocsin status RUN``. Raises Problem for a run that the stack never saw."""
    if not run.startswith("s3://"):
        raise Problem(f"{run}: the stack knows runs as s3://bucket/prefix")
    run = run.rstrip("/")
    stored = S3Checkpoints(aws("s3"), bucket).load(run)
    if stored.version is None:
        raise Problem(f"nothing is known of {run}: `tocsin status` lists the runs that are known")
    return document(stored.checkpoint)


def runs_document(bucket: str) -> Document:
    """The JSON of ``tocsin status``: a line per run, the newest first.

    A checkpoint that cannot be read is left out, with a word on stderr.
    """
    s3 = aws("s3")
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=_CHECKPOINTS)
    found = [item for page in pages for item in page.get("Contents", ())]
    found.sort(key=lambda item: item["LastModified"], reverse=True)
    runs = []
    with ThreadPoolExecutor(_CONNECTIONS) as pool, progress("reading") as advance:
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
            status_text(run["RuleEvaluationStatus"]),
            Text("\n").join((plain(run["job"], "bold"), plain(run["run"], "dim"))),
            plain("-" if run["last_step"] is None else run["last_step"]),
            "finished" if run["finished"] else "running",
            plain(run["LastModifiedTime"][:16].replace("T", " ")),
        )
    console.print(grid)

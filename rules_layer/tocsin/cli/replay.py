"""``tocsin replay RUN``: evaluates a run again, and compares it with the earlier result."""

from __future__ import annotations

import time
from collections.abc import Mapping

from rich.console import Console
from rich.text import Text

from tocsin.aws.clients import real_client
from tocsin.aws.s3 import S3Checkpoints
from tocsin.aws.sqs import Queue, SqsHints
from tocsin.cli.display import styled
from tocsin.cli.errors import CommandError
from tocsin.cli.output import Document
from tocsin.cli.stack import BUCKET, QUEUE, Deployment
from tocsin.cli.status import run_of_job
from tocsin.cli.verdicts import print_verdicts, status_text
from tocsin.evaluation import CheckpointConflict, document, replayed

NOTE = "evaluated again from the run's start: `tocsin replay --act` asked for it"


def run_url(run: str, deployment: Deployment) -> str:
    """Return the URL of a run that is given as such or as its job's name. Raises CommandError."""
    if not run.startswith("s3://"):
        run = run_of_job(run, deployment.find(BUCKET))
    return run.rstrip("/")


def with_before(replayed: Document, run: str, deployment: Deployment) -> Document:
    """Return the verdicts of a replay, with those that the deployment has: ``before`` is the status
    of each rule by its name, and ``changed`` lists the rules whose status differs.
    """
    stored = S3Checkpoints(real_client("s3"), deployment.find(BUCKET)).load(run)
    if stored.version is None:
        return {**replayed, "before": {}, "changed": []}
    before = _statuses(document(stored.checkpoint))
    now = _statuses(replayed)
    changed = [rule for rule in (*before, *now) if before.get(rule) != now.get(rule)]
    return {**replayed, "before": before, "changed": list(dict.fromkeys(changed))}


def print_replay(document: Document, console: Console) -> None:
    """Print the verdicts, then the differences."""
    print_verdicts(document, console)
    console.print()
    if not document["before"]:
        console.print("the deployment has not evaluated this run before")
        return
    if not document["changed"]:
        console.print("every rule has the same status as before")
        return
    console.print(Text("different from before", "bold"))
    now = _statuses(document)
    for rule in document["changed"]:
        before = status_text(document["before"].get(rule))
        console.print(Text("  ").join((styled(rule), before)), "→", status_text(now.get(rule)))


def replay_deployed(run: str, deployment: Deployment) -> Document:
    """Has the deployment evaluate a run again from its start, with all that follows: events,
    notifications, a stop. What it knew of the run is replaced.

    Raises CommandError if the run is not known, or is being evaluated.
    """
    checkpoints = S3Checkpoints(real_client("s3"), deployment.find(BUCKET))
    queue = deployment.find(QUEUE)
    stored = checkpoints.load(run)
    if stored.version is None:
        raise CommandError(
            f"the stack does not know {run}: `tocsin status` lists the runs it knows"
        )
    try:
        checkpoints.save(replayed(stored.checkpoint, NOTE, time.time()), stored.version)
    except CheckpointConflict:
        raise CommandError(f"{run} is being evaluated right now: try again") from None
    SqsHints(Queue(real_client("sqs"), queue)).send(run, "replay")
    return {"run": run, "acts": True}


def print_replayed(document: Document, console: Console) -> None:
    console.print(
        styled(
            f"{document['run']} is evaluated again from its start, with all its actions: "
            f"follow it with `tocsin status {document['run']}`"
        )
    )


def _statuses(document: Document) -> Mapping[str, str]:
    return {
        rule["RuleConfigurationName"]: rule["RuleEvaluationStatus"] for rule in document["rules"]
    }

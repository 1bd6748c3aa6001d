"""``tocsin replay PREFIX --all``: the deployment evaluates every run below a prefix again."""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tocsin.aws.clients import real_client
from tocsin.aws.replays import StoredReplay
from tocsin.aws.run_listing import runs_below
from tocsin.aws.stepfunctions import MapMachine
from tocsin.cli.display import styled, table
from tocsin.cli.errors import WRONG, CommandError
from tocsin.cli.not_judged import FOUND, nothing_judged
from tocsin.cli.output import Document, note, progress
from tocsin.cli.replay_table import Row, rows_of, write_tables
from tocsin.cli.stack import BUCKET, CAPTURES, REPLAYS, Deployment
from tocsin.watch import Watch

_READERS = 16


def start_replay(prefix: str, deployment: Deployment, watch: Watch | None) -> str:
    """Start a replay of all runs below ``s3://bucket/prefix``. Returns its name.

    Raises CommandError if the prefix is not one of the deployment, or has no runs.
    """
    bucket, _, folder = prefix.removeprefix("s3://").partition("/")
    captures = deployment.find(CAPTURES)
    if not prefix.startswith("s3://") or bucket != captures:
        raise CommandError(f"{prefix} is not in the deployment's bucket: name s3://{captures}/…")
    machine = MapMachine(real_client("stepfunctions"), deployment.find(REPLAYS))
    s3 = real_client("s3")
    runs = runs_below(s3, bucket, f"{folder.rstrip('/')}/" if folder.rstrip("/") else "")
    if not runs:
        raise CommandError(f"there is no run at {prefix} or below it")
    name = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
    stored = StoredReplay(s3, deployment.find(BUCKET), name)
    if watch is not None and watch.custom_rules is not None:
        note("a replay uses the custom_rules of the deployment: deploy new ones to try them")
        watch = replace(watch, custom_rules=None)
    stored.write_runs(runs, watch)
    machine.start(name, {"replay": name, "runs": stored.runs_key})
    return name


def collected(prefix: str, name: str, deployment: Deployment, base: str | None) -> Document:
    """Wait for a replay, and write its tables. Raises CommandError if there is no such replay."""
    machine = MapMachine(real_client("stepfunctions"), deployment.find(REPLAYS))
    stored = StoredReplay(real_client("s3"), deployment.find(BUCKET), name)
    runs = stored.runs()
    if runs is None:
        raise CommandError(f"there is no replay {name} in this deployment")
    with progress("replaying") as advance:
        status = machine.wait(name, lambda ended: advance(ended, len(runs)))
    if status != "SUCCEEDED":
        note(f"the replay ended as {status}: see its execution {name}")
    with ThreadPoolExecutor(_READERS) as pool:
        results = dict(zip(runs, pool.map(stored.result, runs), strict=True))
    found = [result for result in results.values() if result is not None]
    rows = [row for result in found for row in rows_of(result)]
    return {
        "replay": name,
        "prefix": prefix,
        "runs": len(runs),
        "failed": [run for run, result in results.items() if result is None],
        "new": [result["run"] for result in found if not result["before"]],
        "judged": sum(not nothing_judged(result) for result in found),
        "rules": _by_rule(rows),
        "tables": [str(path) for path in write_tables(rows, Path(base or f"replay-{name}"))],
    }


def _by_rule(rows: Sequence[Row]) -> list[Document]:
    """For each rule that fired, now or before, in how many runs; and those that differ."""
    fired: dict[str, dict[str, list[str]]] = defaultdict(lambda: {"now": [], "before": []})
    for row in rows:
        for when, status in (("now", row["status"]), ("before", row["status_before"])):
            if status == "IssuesFound":
                fired[row["rule"]][when].append(row["run"])
    return [
        {
            "RuleConfigurationName": rule,
            "before": len(runs["before"]),
            "now": len(runs["now"]),
            "only_now": sorted(set(runs["now"]) - set(runs["before"])),
            "only_before": sorted(set(runs["before"]) - set(runs["now"])),
        }
        for rule, runs in sorted(fired.items())
    ]


def print_collected(document: Document, console: Console) -> None:
    """Prints in how many runs each rule fired, and where the rows are."""
    console.print(styled(f"{document['runs']} runs at {document['prefix']}, evaluated again"))
    if document["new"]:
        console.print(f"{len(document['new'])} of them were not evaluated before")
    for run in document["failed"]:
        console.print(styled(f"no result: {run}", "bold red"))
    console.print()
    rules = table()
    for heading in ("rule", "fired before", "fires now", "only now", "only before"):
        rules.add_column(heading, justify="left" if heading == "rule" else "right")
    for rule in document["rules"]:
        counts = (rule["before"], rule["now"], len(rule["only_now"]), len(rule["only_before"]))
        rules.add_row(styled(rule["RuleConfigurationName"]), *map(str, counts))
    console.print(rules if document["rules"] else Text("no rule fires, and none fired before"))
    console.print()
    console.print(styled(f"a row for each rule of each run: {', '.join(document['tables'])}"))


def exit_code(document: Document) -> int:
    """1 if a rule fires now; 2 if no run could be judged, or one has no result."""
    if any(rule["now"] for rule in document["rules"]):
        return FOUND
    return WRONG if document["failed"] or not document["judged"] else 0

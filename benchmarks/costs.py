"""Add up what a deployment and its jobs cost in a month.

    python -m benchmarks.costs [--jobs 20] [--hours 2] [--interval 10]

Counts what the template contains, and the calls of AWS for a save of a healthy job with one worker.
Prices are those of us-east-1, on demand, without a free tier. Left out: storage of captured data,
alerts, and metrics of findings.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from aws_cdk import App
from tocsin.aws.settings import DUE_SHARDS
from tocsin.evaluation.unit_of_work import EvaluationReport
from tocsin_cdk.options import DeploymentOptions, read_options
from tocsin_cdk.stack import TocsinStack

from tests.faults import cost
from tests.faults.room import DeployedRuns, aws_in_process

DAYS = 30
MINUTES = DAYS * cost.MINUTES_A_DAY
KEY, ALARM, DASHBOARD, METRIC = 1.00, 0.10, 3.00, 0.30  # dollars a month of each
CONNECTIONS, RECEIVES_A_MINUTE = 5, 3  # of an SQS event source without messages: 20 s each
QUERY_SECONDS = 0.008  # of a DynamoDB call: assumed
QUERY = cost.DOLLARS["dynamodb.GetItem"] / 2  # eventually consistent, less than 4 kB
OWN_METRICS = len(EvaluationReport(steps=1).metrics)


@dataclass(frozen=True)
class Row:
    """A part of the bill: how many of it, and dollars a month."""

    name: str
    number: float
    dollars: float


def fixed(template: Mapping[str, Any], patrol_megabytes: int) -> list[Row]:
    """Return the parts that a deployment costs however many jobs train."""
    kinds = Counter(resource["Type"] for resource in template["Resources"].values())
    keys, alarms = kinds["AWS::KMS::Key"], kinds["AWS::CloudWatch::Alarm"]
    dashboards = kinds["AWS::CloudWatch::Dashboard"]
    sources = kinds["AWS::Lambda::EventSourceMapping"]
    receives = sources * CONNECTIONS * RECEIVES_A_MINUTE * MINUTES
    queries = MINUTES * DUE_SHARDS
    patrol = DUE_SHARDS * QUERY_SECONDS * cost.LAMBDA_SECOND * patrol_megabytes / 1024
    patrol += cost.LAMBDA_REQUEST + cost.LOG_BYTES / 1e9 * cost.LOG_GIGABYTE
    return [
        Row("KMS key", keys, keys * KEY),
        Row("alarms", alarms, alarms * ALARM),
        Row("dashboard", dashboards, dashboards * DASHBOARD),
        Row("metrics about Tocsin", OWN_METRICS, OWN_METRICS * METRIC),
        Row("invocations of patrol, with logs", MINUTES, MINUTES * patrol),
        Row("its DynamoDB queries", queries, queries * QUERY),
        Row("SQS requests of idle polling", receives, receives * cost.QUEUE_REQUEST),
    ]


def training(calls: cost.Calls, hours: float, interval: float) -> list[Row]:
    """Return the parts that depend on jobs. ``calls``: of one save; ``hours``: of all jobs together
    in a month; ``interval``: seconds between two saves."""
    saves = hours * 3600 / interval
    judged = sum(dollars for *_, dollars in cost.rows(calls)) / cost.SAVES_A_DAY
    polls = hours / 24 * cost.HOOK_POLLS_A_DAY
    put = cost.DOLLARS["s3.PutObject"]
    return [
        Row("judging a save", saves, saves * judged),
        Row("the hook's files, 2 per save", 2 * saves, 2 * saves * put),
        Row("the hook's polls", polls, polls * cost.DOLLARS["s3.GetObject"]),
    ]


def synthesised() -> Mapping[str, Any]:
    """Return the template of a deployment with default options."""
    with tempfile.TemporaryDirectory() as folder:
        app = App(outdir=folder, context={"aws:cdk:bundling-stacks": []})
        stack = TocsinStack(app, options=read_options({}))
        template: Mapping[str, Any] = app.synth().get_stack_by_name(stack.stack_name).template
    return template


def show(title: str, rows: Iterable[Row]) -> float:
    """Print a table and return its sum."""
    rows = list(rows)
    print(f"{title:44}{'number':>12}{'$ a month':>12}")
    for row in rows:
        print(f"{row.name:44}{row.number:12,.0f}{row.dollars:12.2f}")
    total = sum(row.dollars for row in rows)
    print(f"{'all':44}{'':12}{total:12.2f}\n")
    return total


def main() -> None:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.costs",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--jobs", type=float, default=20, help="jobs a day (20)")
    parser.add_argument("--hours", type=float, default=2, help="hours of a job (2)")
    parser.add_argument("--interval", type=float, default=10, help="seconds between two saves (10)")
    options = parser.parse_args()
    with aws_in_process():
        calls = cost.steady_calls(DeployedRuns({"rules": ["VanishingGradient"]}), 1)
    hours = DAYS * options.jobs * options.hours
    jobs = f"{options.jobs:g} jobs a day of {options.hours:g} hours"
    rows = fixed(synthesised(), DeploymentOptions().memory["patrol"])
    total = show("a deployment, however many jobs train", rows)
    total += show(
        f"{jobs}, a save per {options.interval:g} s", training(calls, hours, options.interval)
    )
    print(f"{'both':44}{'':12}{total:12.2f}")


if __name__ == "__main__":
    main()

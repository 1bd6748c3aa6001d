"""The cost of a job by service: ``python -m tests.faults.cost`` prints the table of the docs.

The calls of AWS are counted at botocore while the functions' own adapters work; prices are those
of us-east-1, on demand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import boto3
from tocsin.model import Mode
from tocsin.tensors import RunWriter, index_key, open_storage
from tocsin_hooks.machine import Minute, entries

from tests.faults.room import CAPTURES, Calls, DeployedRuns, aws_in_process, calls_of_aws

SAVES_A_DAY = 8_640  # one every ten seconds
MINUTES_A_DAY = 1_440
DOLLARS = {  # a call, us-east-1
    "s3.ListObjectsV2": 5e-6,
    "s3.PutObject": 5e-6,
    "s3.GetObject": 4e-7,
    "s3.HeadObject": 4e-7,
    "dynamodb.UpdateItem": 6.25e-7,
    "dynamodb.PutItem": 6.25e-7,
    "dynamodb.GetItem": 1.25e-7,
    "sqs.SendMessage": 4e-7,
    "events.PutEvents": 1e-6,
    "cloudwatch.PutMetricData": 1e-5,
}
INDEX_DOLLARS = 2 * 6.25e-7  # due_at moves: one item out of the index, one in
SECONDS_A_LOOK = 0.12  # assumed, of evaluate when warm: seven calls in a row, mostly
LAMBDA_SECOND = 1.33334e-5  # arm64, 1 GB
LAMBDA_REQUEST = 2e-7
QUEUE_REQUESTS, QUEUE_REQUEST = 2, 4e-7  # received and deleted, by the event source
LOG_BYTES, LOG_GIGABYTE = 1_500, 0.50  # of an invocation
POLLS_A_DAY = 86_400 / 5
HOOK_POLLS_A_DAY = (2 + 1 / 3) * POLLS_A_DAY  # of STOP.json, watch.json; each third of TRACE.json


def steady_calls(runs: DeployedRuns, workers: int) -> Calls:
    """The deployment's calls for the fourth save of a healthy run; each worker's file has a
    notification of its own.
    """
    job = runs.job(f"jobs/of-{workers}", workers)
    for step in range(4):
        runs.save(job, step)
        with calls_of_aws() as calls:
            runs.notify(job, step)
    assert runs.known(job).steps == 4
    return calls


def minute_calls(runs: DeployedRuns, nodes: int, *, together: bool) -> Calls:
    """The deployment's calls for the fourth minute of a healthy job's machines: for one message of
    all files, or for one message of each.
    """
    url = f"{CAPTURES}jobs/of-{nodes}-{together}/profiler-output"
    storage = open_storage(url, client=boto3.client("s3"))
    writers = [RunWriter(storage, f"node_{node}", run_id="r") for node in range(nodes)]
    minute = entries(Minute(60.0, {"cpu/CPUUtilization": [50.0] * 120}, {"TRAIN": [0.5] * 100}))
    for number in range(4):
        for writer in writers:
            if number == 0:
                writer.write_collections((), nodes)
            writer.write(number, Mode.GLOBAL, number, minute)
        keys = [index_key(number, f"node_{node}") for node in range(nodes)]
        with calls_of_aws() as calls:
            for group in [keys] if together else [[key] for key in keys]:
                runs.look(url, *group)
    assert runs.evaluated(url) == 4
    return calls


def machine_day(calls: Calls, nodes: int, looks: int) -> Mapping[str, float]:
    """Dollars for a day of a job's machines, by what they are for. ``calls``: of one minute."""
    look = SECONDS_A_LOOK * LAMBDA_SECOND + LAMBDA_REQUEST + LOG_BYTES / 1e9 * LOG_GIGABYTE
    return {
        "the files of the minutes": MINUTES_A_DAY * nodes * DOLLARS["s3.PutObject"],
        "calls of evaluate": MINUTES_A_DAY * sum(dollars(calls).values()),
        "evaluate's time and logs": MINUTES_A_DAY * looks * look,
        "queue": MINUTES_A_DAY * QUEUE_REQUEST * (nodes + QUEUE_REQUESTS * looks),
    }


def counts(calls: Calls) -> Counter[str]:
    """How many calls there are, by name."""
    return Counter(name for name, _ in calls)


def moves_due_at(calls: Calls) -> int:
    """Return the number of calls that change the index ``due``."""
    return sum("due_at" in str(parameters.get("UpdateExpression")) for _, parameters in calls)


def dollars(calls: Calls) -> Mapping[str, float]:
    """Return the cost of the calls by name."""
    cost = {name: DOLLARS[name] * number for name, number in counts(calls).items()}
    return {**cost, "dynamodb, index": INDEX_DOLLARS * moves_due_at(calls)}


def rows(calls: Calls) -> Iterator[tuple[str, float, float]]:
    """Name, number a save, dollars a day."""
    number = counts(calls)
    for name, cost in sorted(dollars(calls).items()):
        if cost:
            yield name, number[name], cost * SAVES_A_DAY
    yield "queue: receive, delete", QUEUE_REQUESTS, QUEUE_REQUESTS * QUEUE_REQUEST * SAVES_A_DAY
    run = SECONDS_A_LOOK * LAMBDA_SECOND + LAMBDA_REQUEST
    yield f"lambda: {SECONDS_A_LOOK} s", 1, run * SAVES_A_DAY
    yield f"logs: {LOG_BYTES} bytes", 1, LOG_BYTES / 1e9 * LOG_GIGABYTE * SAVES_A_DAY


def main() -> None:
    with aws_in_process():
        calls = steady_calls(DeployedRuns({"rules": ["VanishingGradient"]}), 1)
    print(f"{'a quiet job, one save per 10 s':34}{'a save':>8}{'$ a day':>10}")
    found = list(rows(calls))
    for name, number, cost in found:
        print(f"{name:34}{number:8.0f}{cost:10.4f}")
    print(f"{'all':34}{'':8}{sum(cost for *_, cost in found):10.4f}")
    puts, polls = DOLLARS["s3.PutObject"], DOLLARS["s3.GetObject"] * HOOK_POLLS_A_DAY
    print(f"{'beside it, the hook: index files':34}{1:8}{puts * SAVES_A_DAY:10.4f}")
    print(f"{'  event files, with saved values':34}{1:8}{puts * SAVES_A_DAY:10.4f}")
    print(f"{'  its polls, each 5 s':34}{'':8}{polls:10.4f}")


if __name__ == "__main__":
    main()

"""Simulate what a deployment of 10 to 10,000 jobs needs and costs.

    python -m benchmarks.scale [--minutes 10] [--interval 10] [--json]

A look is timed here, in memory; to its CPU time come the calls of AWS that it makes, which are
counted, at assumed latencies. The queue is simulated message by message (``_simulation.py``), from
a deployment without a warm function on. Quotas and prices are AWS's, of us-east-1. docs/scale.md
says what is assumed.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tocsin.aws.settings import DUE_SHARDS
from tocsin.evaluation import Hint, evaluate, memory_ports
from tocsin.model import Mode
from tocsin.tensors import Captured, Collection, LocalStorage, RunWriter
from tocsin_cdk.options import DeploymentOptions

from benchmarks._simulation import Outcome, Times, percentile, simulate
from tests.faults import cost
from tests.faults.room import DeployedRuns, aws_in_process

DEFAULT = DeploymentOptions().concurrency["evaluate"]

LATENCY = {  # seconds of a call from Lambda in the same region: assumed
    "s3.ListObjectsV2": 0.030,
    "s3.GetObject": 0.020,
    "s3.HeadObject": 0.012,
    "s3.PutObject": 0.035,
    "dynamodb.UpdateItem": 0.008,
}
SEND = 0.010  # seconds of a SendMessageBatch: assumed
CPU_OF_CALL = 0.0015  # seconds at a whole vCPU, of boto3 and TLS: assumed
VCPUS = 1024 / 1769  # of a function with 1,024 MB: Lambda gives a whole one at 1,769
COLD = 2.5  # seconds: environment, imports, clients: assumed
NOTICE = 0.5  # seconds from S3 to the queue: assumed; AWS says "typically in seconds"
FIRST_SLOTS, MORE_A_MINUTE = 5, 300  # of an SQS event source, until its limit
TENSORS, STEPS = 20, 200
CONTAINER_DAY = 24.0  # $: 20 rules, each in an ml.t3.medium at $0.05 an hour


@dataclass(frozen=True)
class Deployment:
    """``jobs`` that save every so many seconds, and the option ``concurrency`` of evaluate."""

    jobs: int
    interval: float
    concurrency: int


@dataclass(frozen=True)
class Limit:
    """A quota of AWS, and by which calls each save uses it."""

    name: str
    a_second: float
    calls: tuple[str, ...]


LIMITS = (
    Limit("S3, writes of a prefix of state", 3500, ("s3.PutObject state",)),
    Limit("S3, reads of a prefix of state", 5500, ("s3.GetObject state",)),
    Limit(
        "S3, reads of a prefix of captures",
        5500,
        ("s3.GetObject captures", "s3.HeadObject captures", "s3.ListObjectsV2 captures"),
    ),
    Limit("DynamoDB, writes of a new on-demand table", 4000, ("dynamodb.UpdateItem",)),
)
INDEX_PARTITION = 1000  # writes a second
RECHECK = 300.0  # seconds between two ticks of a run
PATROL = 40.0  # seconds that it sends in, ten messages a call
ACCOUNT_CONCURRENCY = 1000
EVENT_SOURCE = 1250  # invocations at a time of one SQS event source


def measured_cpu() -> tuple[float, float]:
    """CPU seconds here of a look with one new step, and of a further step, with default rules."""
    with tempfile.TemporaryDirectory() as folder:
        storage = LocalStorage(Path(folder))
        writer = RunWriter(storage, run_id="r")
        writer.write_collections([Collection("losses", tensor_names=("loss",))])
        now = time.time()
        ports = memory_ports(storage, lambda: now)  # it stands still: no look makes room for others
        random_ = np.random.default_rng(0)
        looks = []
        for step in range(STEPS):
            captured = [
                Captured(f"gradient/w{at}", random_.standard_normal(1000).astype(np.float32))
                for at in range(TENSORS - 1)
            ]
            loss = Captured("loss", np.float32([1 / (1 + step)]))
            key = writer.write(step, Mode.TRAIN, step, [loss, *captured])
            if step < STEPS // 2:
                begin = time.process_time()
                hint = Hint(storage.url, (str(key),))
                evaluate(hint, ports, owner="o", ends=now + 3600)
                looks.append(time.process_time() - begin)
        begin = time.process_time()
        report = evaluate(Hint(storage.url), ports, owner="o", ends=now + 3600)
        spent = time.process_time() - begin
    assert report.steps == STEPS - STEPS // 2
    return statistics.median(looks[10:]), spent / report.steps


def counted_calls() -> Counter[str]:
    """The calls of AWS for one save of a job: those of S3 with the bucket, captures or state."""
    with aws_in_process():
        runs = DeployedRuns({"rules": ["VanishingGradient"]})
        calls = cost.steady_calls(runs, 1)
    return Counter(f"{name} {given.get('Bucket', '')}".rstrip() for name, given in calls)


def times_of(look: float, step: float, calls: Mapping[str, int]) -> Times:
    waits = sum(LATENCY[name.split()[0]] * number for name, number in calls.items())
    call_cpu = CPU_OF_CALL / VCPUS
    return Times(
        look=look / VCPUS + waits + call_cpu * sum(calls.values()),
        step=step / VCPUS + LATENCY["s3.GetObject"] / 16,  # index files are fetched 16 at a time
        held=LATENCY["dynamodb.UpdateItem"] + call_cpu,
        cold=COLD,
        notice=NOTICE,
    )


def slots(concurrency: int) -> list[float]:
    """From when on Lambda polls with each of so many invocations at a time."""
    more = range(max(0, concurrency - FIRST_SLOTS))
    return [0.0] * min(concurrency, FIRST_SLOTS) + [60 * at / MORE_A_MINUTE for at in more]


def saves(jobs: int, interval: float, seconds: float, seed: int = 0) -> Iterator[tuple[float, int]]:
    """Yield the saves of all jobs: each at its own pace, within a tenth of the interval."""
    random_ = random.Random(seed)
    for job in range(jobs):
        at = random_.uniform(0, interval)
        while at < seconds:
            yield at, job
            at += interval * random_.uniform(0.9, 1.1)


def needed(jobs: int, interval: float, times: Times) -> int:
    """The concurrency at which looks take 70 % of it."""
    return max(2, round(jobs / interval * times.look / 0.7 + 0.5))


def dollars(calls: Mapping[str, int], times: Times, found: Outcome, interval: float) -> float:
    """Of a job-day, from the calls and what was simulated."""
    per_save = found.messages or 1
    requests = cost.QUEUE_REQUESTS * cost.QUEUE_REQUEST + cost.LAMBDA_REQUEST
    requests += cost.LOG_BYTES / 1e9 * cost.LOG_GIGABYTE
    save = sum(cost.DOLLARS[name.split()[0]] * number for name, number in calls.items())
    save += requests * found.invocations / per_save
    save += cost.LAMBDA_SECOND * found.busy / per_save
    return save * (86_400 / interval + 86_400 / RECHECK)


def limits(
    deployment: Deployment, calls: Mapping[str, int], look: float, found: Outcome
) -> Mapping[str, float]:
    """Return the share of each limit that is used, the most used first."""
    rate = deployment.jobs / deployment.interval
    used = {
        limit.name: rate * sum(calls.get(name, 0) for name in limit.calls) / limit.a_second
        for limit in LIMITS
    }
    ticks = deployment.jobs / RECHECK
    used["DynamoDB, a partition of the index"] = 2 * ticks / DUE_SHARDS / INDEX_PARTITION
    used["patrol's minute"] = 60 * ticks / 10 * SEND / PATROL
    used["option concurrency"] = rate * look / deployment.concurrency
    used["Lambda, the account's concurrency"] = found.most / ACCOUNT_CONCURRENCY
    used["Lambda, one SQS event source"] = found.most / EVENT_SOURCE
    return dict(sorted(used.items(), key=lambda each: -each[1]))


def row(
    deployment: Deployment, times: Times, calls: Counter[str], seconds: float
) -> dict[str, Any]:
    begun = saves(deployment.jobs, deployment.interval, seconds)
    found = simulate(begun, slots(deployment.concurrency), times)
    steady = [lag for at, lag, _ in found.lags if at >= seconds / 2]
    first = [lag for at, lag, _ in found.lags if at < 60]
    rate = deployment.jobs / deployment.interval
    return {
        "jobs": deployment.jobs,
        "concurrency": deployment.concurrency,
        "most at once": found.most,
        "lag p50": percentile(steady, 0.5),
        "lag p95": percentile(steady, 0.95),
        "first minute p95": percentile(first, 0.95),
        "batch": found.messages / max(1, found.invocations),
        "calls": {name: number * rate for name, number in sorted(calls.items())},
        "dollars": dollars(calls, times, found, deployment.interval),
        "limits": limits(deployment, calls, times.look, found),
    }


def fairness(times: Times, concurrency: int, seconds: float) -> dict[str, float]:
    """The lag's p95 of 100 fresh runs: alone, and beside a run with 50,000 waiting steps and a
    role that writes 24 files a second into another.
    """
    fresh = list(saves(100, 10.0, seconds))
    noisy = [(at / 24, 101) for at in range(int(24 * seconds))]

    def p95(extra: Sequence[tuple[float, int]], backlog: Mapping[int, int]) -> float:
        everything = [*fresh, *extra]
        found = simulate(everything, [0.0] * concurrency, times, backlog=backlog)
        return percentile([lag for at, lag, run in found.lags if run < 100 and at > 10], 0.95)

    alone, beside = p95((), {}), p95(noisy, {100: 50_000, 101: 0})
    return {"alone": alone, "beside": beside, "ratio": beside / alone}


def first(shares: Mapping[str, float]) -> str:
    """The limit that breaks first."""
    return ", ".join(f"{name} {100 * share:.0f} %" for name, share in [*shares.items()][:2])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--interval", type=float, default=10.0, help="seconds between saves")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    calls, (look, step) = counted_calls(), measured_cpu()
    times = times_of(look, step, calls)
    seconds = 60 * arguments.minutes
    deployments = [
        Deployment(jobs, arguments.interval, max(DEFAULT, needed(jobs, arguments.interval, times)))
        for jobs in (10, 100, 1000, 10_000)
    ]
    deployments.insert(3, Deployment(1000, arguments.interval, DEFAULT))  # overloaded
    rows = [row(each, times, calls, seconds) for each in deployments]
    fair = {some: fairness(times, some, seconds) for some in (DEFAULT, DEFAULT + 1, 2 * DEFAULT)}
    if arguments.json:
        json.dump({"times": vars(times), "rows": rows, "fairness": fair}, sys.stdout, indent=1)
        return
    print(f"measured here: a look {1000 * look:.1f} ms of CPU, a further step {1000 * step:.1f} ms")
    print(f"so on AWS:     a look {1000 * times.look:.0f} ms, a step {1000 * times.step:.1f} ms\n")
    print(
        f"{'jobs':>6}{'concur.':>9}{'at once':>9}{'p50':>10}{'p95':>10}{'1st min.':>10}{'batch':>7}"
        f"{'$/job-day':>11}  limits most used"
    )
    for each in rows:
        print(
            f"{each['jobs']:>6,}{each['concurrency']:>9}{each['most at once']:>9}"
            f"{each['lag p50']:>8.1f} s{each['lag p95']:>8.1f} s{each['first minute p95']:>8.1f} s"
            f"{each['batch']:>7.1f}{each['dollars']:>11.3f}  {first(each['limits'])}"
        )
    print(f"\na container for each of 20 rules: ${CONTAINER_DAY:.0f} a job-day")
    print(f"\n{'calls a second':28}" + "".join(f"{each['jobs']:>9,}" for each in rows))
    for name in rows[0]["calls"]:
        print(f"{name:28}" + "".join(f"{each['calls'][name]:>9,.0f}" for each in rows))
    print(
        "\n100 fresh runs, alone and beside 50,000 waiting steps and 24 files a second\n"
        f"{'concur.':>9}{'p95 alone':>13}{'beside':>10}{'ratio':>8}"
    )
    for concurrency, each in fair.items():
        print(
            f"{concurrency:>9}{each['alone']:>11.2f} s{each['beside']:>8.2f} s"
            f"{each['ratio']:>7.2f}×"
        )


if __name__ == "__main__":
    main()

"""Many runs at once on the embedded AWS: steps a second, and how late verdicts and stops are.

    python -m benchmarks.load [--runs 50] [--steps 40] [--stopping 200]

First 50 runs of 40 steps with 20 tensors each, whose writers do not wait for anything. Then 200
runs of 5 steps with the rules of profile ``recommended``; the loss of the third step is NaN, so a
rule fires and the run is asked to stop. A verdict is as late as ``EvaluatedAt`` of its event is
after the index file, a stop as ``STOP.json``. Beside it one process evaluates the same 50 runs in a
plain loop, from the same bucket. All of it shares this machine's processors, the emulator too.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import numpy as np
from tocsin.aws.s3 import S3Checkpoints
from tocsin.evaluation import check
from tocsin.events import STATUS_CHANGE
from tocsin.model import Mode, RuleStatus
from tocsin.tensors import STOP, Captured, Collection, RunWriter, Storage, open_storage

from benchmarks._simulation import percentile
from local.events import Events, listen
from local.stack import LocalAws, local_aws
from local.trainings import written_at

TENSORS, WRITERS = 20, 4
LAST = 900.0  # seconds that a phase may take
STEPS, BAD = 5, 2
FIRED = RuleStatus.ISSUES_FOUND
STOPPED = b'{"actions": ["stop"]}'
QUEUES = ("EvaluateDeadLetterQueueUrl", "ActDeadLetterQueueUrl")


def write(storage: Storage, steps: int, bad: int | None = None) -> None:
    """A run of so many steps; the loss of step ``bad`` is NaN."""
    name = storage.url.rpartition("/")[2]
    random = np.random.default_rng(0)
    writer = RunWriter(storage, run_id=name)
    writer.write_collections([Collection("losses", tensor_names=("loss",))])
    for step in range(steps):
        captured = [
            Captured(f"gradient/w{at}", random.standard_normal(100).astype(np.float32))
            for at in range(TENSORS - 1)
        ]
        loss = Captured("loss", np.float32([np.nan if step == bad else 1 / (1 + step)]))
        writer.write(step, Mode.TRAIN, step, [loss, *captured])
    writer.close()


def in_parallel(runs: Sequence[Storage], do: Callable[[Storage], object]) -> None:
    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(do, runs))


def wait_until_evaluated(aws: LocalAws, runs: Sequence[Storage]) -> None:
    """Returns as soon as the checkpoint of each run says that it has ended."""
    checkpoints = S3Checkpoints(aws.client("s3"), aws.outputs["StateBucketName"])
    left, ends = list(runs), time.monotonic() + LAST
    while left:
        if time.monotonic() > ends:
            raise RuntimeError(f"{len(left)} of {len(runs)} runs are not evaluated: {left[0].url}")
        if checkpoints.load(left[-1].url).checkpoint.ended:
            left.pop()
        else:
            time.sleep(0.2)


def verdicts(events: Events, runs: int) -> list[float]:
    """Seconds from the index file to the verdict that fired first, of each run."""
    found: dict[str, float] = {}
    ends = time.monotonic() + LAST
    while len(found) < runs and time.monotonic() < ends:
        for event in events.receive():
            detail = event["detail"]
            if event["detail-type"] == STATUS_CHANGE and detail["RuleEvaluationStatus"] == FIRED:
                late = seconds(detail["EvaluatedAt"]) - seconds(detail["IndexLastModified"])
                found[detail["Run"]] = min(late, found.get(detail["Run"], late))
    return list(found.values())


def seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def stops(runs: Sequence[Storage]) -> list[float]:
    """Seconds from the bad step's index file to STOP.json, of each run that has one."""
    return [
        item.modified - (written_at(storage, BAD, "worker_0") or 0.0)
        for storage in runs
        for item in storage.list(STOP)
    ]


def dead_letters(aws: LocalAws) -> int:
    name, sqs = "ApproximateNumberOfMessages", aws.client("sqs")
    answers = (
        sqs.get_queue_attributes(QueueUrl=aws.outputs[queue], AttributeNames=[name])
        for queue in QUEUES
    )
    return sum(int(answer["Attributes"][name]) for answer in answers)


def throughput(aws: LocalAws, runs: int, steps: int) -> None:
    storages = [storage_of(aws, f"load-{number}") for number in range(runs)]
    begin = time.monotonic()
    in_parallel(storages, lambda storage: write(storage, steps))
    uploaded = time.monotonic() - begin
    wait_until_evaluated(aws, storages)
    evaluated = time.monotonic() - begin
    begin = time.monotonic()
    for storage in storages:
        check(storage)
    plain = time.monotonic() - begin
    total = runs * steps
    print(f"{runs} runs of {steps} steps, {TENSORS} tensors each")
    print(f"{'uploading alone':34}{total / uploaded:9.1f} steps/s")
    print(f"{'end to end, deployed':34}{total / evaluated:9.1f} steps/s")
    print(f"{'a plain loop in one process':34}{total / plain:9.1f} steps/s", flush=True)


def alerting(aws: LocalAws, runs: int) -> None:
    storages = [storage_of(aws, f"stopping-{number}") for number in range(runs)]
    events = listen(aws.client, aws.outputs["EventBusName"], "load")
    begin = time.monotonic()
    for storage in storages:
        storage.write("watch.json", STOPPED)
    in_parallel(storages, lambda storage: write(storage, STEPS, BAD))
    wait_until_evaluated(aws, storages)
    evaluated = time.monotonic() - begin
    print(f"\n{runs} runs of {STEPS} steps, rules of recommended, a NaN in step {BAD}")
    print(f"{'end to end, deployed':34}{runs * STEPS / evaluated:9.1f} steps/s")
    found = verdicts(events, runs)
    ends = time.monotonic() + LAST
    while len(stopped := stops(storages)) < runs and time.monotonic() < ends:
        events.receive()  # actions, too, are events
    for name, late in (("index file → verdict", found), ("index file → stop", stopped)):
        shown = "".join(
            f"  p{100 * at:.0f} {percentile(late, at):5.1f} s" for at in (0.5, 0.95, 0.99)
        )
        print(f"{name:34}{len(late):4} of {runs}{shown}")


def storage_of(aws: LocalAws, name: str) -> Storage:
    url = f"s3://{aws.outputs['CaptureBucketName']}/jobs/{name}/debug-output"
    return open_storage(url, client=aws.client("s3"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--stopping", type=int, default=200)
    arguments = parser.parse_args()
    with local_aws({"stopGuard": "1000/1m"}) as aws:  # so many stops are meant here
        throughput(aws, arguments.runs, arguments.steps)
        alerting(aws, arguments.stopping)
        print(f"dead letters: {dead_letters(aws)}")


if __name__ == "__main__":
    main()

"""From a bad step's index file in the bucket to the call that stops the job, functions warm.

    python -m benchmarks.latency [--jobs 30] [--interval 0.25]

Each job is a real process of the local SageMaker that waits for a stop. Beside it a run
is written whose third step holds a NaN, a save every quarter of a second. Measured from the
bucket's own time of that index file to the arrival of StopTrainingJob, one job after the other, on
the embedded AWS. What it costs on AWS itself is the sum of S3's notification, two queues and a bus:
see docs/performance.md.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import sys
import time

import numpy as np
from tocsin.model import Mode, TensorSummary
from tocsin.tensors import Captured, Collection, RunWriter, open_storage

from local.events import listen
from local.stack import LocalAws, local_aws
from local.trainings import training_job, written_at

WAITS = "import signal; signal.sigwait({signal.SIGTERM})"
WATCH = b'{"rules": [{"rule": "ExplodingTensor", "actions": ["stop"]}]}'
TENSORS = 200
GOOD = TensorSummary(size=9, nan=0, posinf=0, neginf=0, zeros=0, mean=0.1, abs_mean=0.1)


def stop_one(aws: LocalAws, name: str, interval: float) -> float:
    """Milliseconds from the bad step's index file to the stop of one job."""
    output = f"s3://{aws.outputs['CaptureBucketName']}/jobs"
    aws.client("sagemaker").create_training_job(
        **training_job(name, [sys.executable, "-c", WAITS], output)
    )
    storage = open_storage(f"{output}/{name}/debug-output", client=aws.client("s3"))
    storage.write("watch.json", WATCH)
    writer = RunWriter(storage, run_id=name)
    writer.write_collections([Collection("losses", tensor_names=("loss",))])
    events = listen(aws.client, aws.outputs["EventBusName"], f"bench-{name}")
    for step in range(3):
        time.sleep(interval)  # the pace of a training
        captured = [
            Captured(f"w{number}", shape=(9,), dtype="float32", summary=GOOD)
            for number in range(TENSORS)
        ]
        loss = Captured("loss", np.float32([np.nan if step == 2 else 1.0]))
        writer.write(step, Mode.TRAIN, step, [loss, *captured])
    while not aws.jobs.get(name).finished:
        events.receive(wait=1)
    stopped, written = aws.jobs.get(name).at("Stopping"), written_at(storage, 2, "worker_0")
    assert stopped is not None
    assert written is not None
    return 1000 * (stopped - written)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=30)
    parser.add_argument("--interval", type=float, default=0.25, help="seconds between saves")
    arguments = parser.parse_args()
    jobs, interval = arguments.jobs, arguments.interval
    with local_aws({"stopGuard": "1000/1m"}, grace=5.0) as aws:  # so many stops are meant here
        times = [stop_one(aws, f"latency-{number}", interval) for number in range(jobs + 2)][2:]
    times.sort()
    print(f"index file → StopTrainingJob, {jobs} jobs of {TENSORS} summaries a step, warm")
    print(f"{platform.machine()}, Python {platform.python_version()}, embedded AWS")
    print(
        f"p50 {statistics.median(times):.0f} ms   p95 {times[int(0.95 * jobs)]:.0f} ms   ", end=""
    )
    print(f"least {times[0]:.0f} ms   most {times[-1]:.0f} ms")


if __name__ == "__main__":
    main()

"""Measure how long the stop of one run takes beside hostile runs, on the embedded AWS.

    python -m benchmarks.hostile [--victims 5] [--runs 4] [--only actions,flapping]

Somebody with write access to one prefix brings each load about; the victim is a run below another
prefix. Measured from the upload of the victim's bad step to its ``STOP.json``, while the load goes
on, one victim after the other. Each load has an embedded AWS of its own, warm. Prints a table.
"""

from __future__ import annotations

import argparse
import json
import platform
import secrets
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from tocsin.aws.s3 import S3Checkpoints
from tocsin.model import Mode
from tocsin.tensors import STOP, WATCH, Captured, Collection, NotFound, RunWriter, open_storage

from local.stack import LocalAws, local_aws

GOOD, BAD = 1e-2, 1e-12  # the mean of |gradient|
PATIENCE = 120.0  # seconds for one stop
PACE = 0.2  # seconds between the saves of a hostile run
STOPS = {"rule": "VanishingGradient", "for_steps": 1, "severity": "critical", "actions": ["stop"]}
COLLECTIONS = [Collection("gradients", include_regex=("^gradient",))]


@dataclass
class Run:
    """A run in the bucket of the embedded AWS, outside SageMaker."""

    aws: LocalAws
    path: str
    watch: dict[str, Any]
    step: int = 0
    writer: RunWriter = field(init=False)

    def __post_init__(self) -> None:
        self.url = f"s3://{self.aws.outputs['CaptureBucketName']}/{self.path}"
        self.storage = open_storage(self.url, client=self.aws.client("s3"))
        self.storage.write(WATCH, json.dumps(self.watch).encode())
        self.writer = RunWriter(self.storage, run_id=self.path)
        self.writer.write_collections(COLLECTIONS)

    def save(self, gradient: float = GOOD) -> None:
        tensor = Captured("gradient/fc", np.full(4, gradient, np.float32))
        self.writer.write(self.step, Mode.TRAIN, self.step, [tensor])
        self.step += 1

    def has_stopped(self) -> bool:
        try:
            return self.storage.head(STOP).size > 0
        except NotFound:
            return False


Load = Callable[[Run, threading.Event], None]
"""What a hostile run does until the event is set."""


def fires(run: Run, over: threading.Event) -> None:
    """All rules fire at once, each with 20 actions of its own."""
    run.save()
    run.save(BAD)


def has_collections(run: Run, over: threading.Event) -> None:
    """Thousands of small collections files, and a save now and then."""
    content = b'{"collections": {}, "_meta": {"num_workers": 1}}'
    with ThreadPoolExecutor(8) as pool:
        for number in range(5000):
            name = f"collections/000000000/w{number:05d}_collections.json"
            pool.submit(run.storage.write, name, content)
    saves_on(run, over)


def flaps(run: Run, over: threading.Event) -> None:
    """All rules fire and resolve in turns."""
    while not over.wait(PACE):
        run.save(BAD if run.step % 2 else GOOD)


def goes_on_after_its_end(run: Run, over: threading.Event) -> None:
    """Steps after an end marker that names their own start of the job."""
    run.save()
    run.writer.close()
    saves_on(run, over)


def cannot_be_read(run: Run, over: threading.Event) -> None:
    """Steps of a run whose watch file is encrypted with a key that only its writer has."""
    run.aws.client("s3").put_object(
        Bucket=run.aws.outputs["CaptureBucketName"],
        Key=f"{run.path}/{WATCH}",
        Body=json.dumps(run.watch),
        SSECustomerAlgorithm="AES256",
        SSECustomerKey=secrets.token_bytes(32),
    )
    saves_on(run, over)


def saves_on(run: Run, over: threading.Event) -> None:
    """Save a step from time to time."""
    while not over.wait(PACE):
        run.save()


def rules(actions: int, **options: Any) -> dict[str, Any]:
    """A watch file of 200 rules, as many as a run may have."""
    each = {"rule": "VanishingGradient", "for_steps": 1, "severity": "critical", **options}
    return {
        "notify": {"group_interval": "10s", "summary": ["email"]},
        "rules": [
            {**each, "name": f"r{n}", "actions": [f"metric:m{n}-{k}" for k in range(actions)]}
            for n in range(200)
        ],
    }


LOADS: dict[str, tuple[str, dict[str, Any], Load]] = {
    "actions": ("200 rules with 20 actions each fire at once", rules(20), fires),
    "collections": ("5,000 collections files", rules(0), has_collections),
    "flapping": ("200 rules fire and resolve with each save", rules(1, resolve=1), flaps),
    "ended": ("saves after the end marker, each with a summary", rules(0), goes_on_after_its_end),
    "unreadable": ("saves with a watch file that cannot be decrypted", rules(0), cannot_be_read),
}


@contextmanager
def under(load: str, aws: LocalAws, runs: int) -> Iterator[None]:
    """Hostile runs are at work in the block."""
    _, watch, does = LOADS[load]
    over = threading.Event()
    with ThreadPoolExecutor(runs) as pool:
        hostile = [Run(aws, f"evil/{load}-{number}", watch) for number in range(runs)]
        done = [pool.submit(does, run, over) for run in hostile]
        try:
            time.sleep(5.0)  # the load has begun
            yield
        finally:
            over.set()
        for each in done:
            each.result()


def stop_of(aws: LocalAws, name: str) -> float:
    """Seconds from the bad step of a new run to its stop; infinite if it does not come."""
    victim = Run(aws, f"prod/{name}", {"rules": [STOPS]})
    victim.save()
    state = S3Checkpoints(aws.client("s3"), aws.outputs["StateBucketName"])
    patiently(lambda: state.load(victim.url).checkpoint.frontier >= 0)
    began = time.monotonic()
    victim.save(BAD)
    return time.monotonic() - began if patiently(victim.has_stopped) else float("inf")


def patiently(holds: Callable[[], bool]) -> bool:
    until = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def measure(load: str, victims: int, runs: int) -> list[float]:
    """The stops of victims beside a load, or alone, in seconds."""
    with local_aws({"emails": ["ops@example.com"], "stopGuard": "500/10m"}) as aws:
        for number in range(2):
            stop_of(aws, f"warm-{number}")
        stops = partial(stop_of, aws)
        names = [f"victim-{number}" for number in range(victims)]
        if not load:
            return sorted(map(stops, names))
        with under(load, aws, runs):
            return sorted(map(stops, names))


def row(text: str, times: Sequence[float]) -> str:
    return f"| {text} | {_shown(statistics.median(times))} | {_shown(max(times))} |"


def _shown(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < PATIENCE else f"over {PATIENCE:.0f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--victims", type=int, default=5)
    parser.add_argument("--runs", type=int, default=4, help="hostile runs at a time")
    parser.add_argument("--only", default=",".join(LOADS), help="loads, with commas")
    arguments = parser.parse_args()
    print(f"{platform.machine()}, Python {platform.python_version()}, embedded AWS\n")
    print(f"| beside {arguments.runs} hostile runs | stop, median | longest |\n|---|---|---|")
    for load in ("", *arguments.only.split(",")):
        text = LOADS[load][0] if load else "alone"
        times = measure(load, arguments.victims, arguments.runs)
        print(row(text, times), flush=True)


if __name__ == "__main__":
    main()

"""The cold start of each function, beside what it cannot do without.

    python -m benchmarks.cold_start [--repeats 7] [--json]

CPU time until a new process has handled its first message, divided by that of a process that only
imports numpy and boto3 and makes the clients which that message needs. Each function runs in
processes of this machine with the environment of its deployment on the embedded AWS, and with
compiled bytecode for all packages. ``evaluate`` looks at a new run whose watch file names one rule,
and at one with all rules of profile ``recommended``; ``act`` sends the alert of a rule that fired;
``patrol`` finds nothing due.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from tocsin.events import RUN_NEWS, SOURCE, RunNews
from tocsin.model import Mode
from tocsin.tensors import Captured, Collection, RunWriter, index_key, open_storage

from local.stack import LocalAws, local_aws

ROOT = Path(__file__).parents[1]
PROCESS = Path(__file__).with_name("_cold_start_process.py")
BUCKET = "cold-start"  # has no notifications: the deployed functions do not see its runs
ONE_RULE = b'{"rules": [{"rule": "ExplodingTensor", "severity": "critical", "actions": ["email"]}]}'
TARGETS = {
    "evaluate, one rule": 1.3,
    "evaluate, all rules": 1.3,
    "act": 1.4,
    "patrol": 1.1,
}


@dataclass(frozen=True)
class Starter:
    """Starts processes with the environment of the deployed functions."""

    aws: LocalAws
    folder: Path
    bus: str

    def start(self, function: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the process prints: its CPU seconds, and the clients that it made."""
        code = self.folder / function
        if not code.exists():
            shutil.copytree(ROOT / "functions" / function, code)
            (code / "watch.json").write_text("{}")
        environment = {
            **os.environ,
            **self.aws.environment,
            **self._variables(function),
            "TOCSIN_BUS": self.bus,
            "PYTHONPATH": f"{code}:{ROOT / 'rules_layer'}",
            "PYTHONPYCACHEPREFIX": str(self.folder / "bytecode"),
        }
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        command = [sys.executable, str(PROCESS), json.dumps(request)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{function} failed: {done.stderr[-2000:]}{done.stdout[-2000:]}")
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return answer

    def _variables(self, function: str) -> Mapping[str, str]:
        for page in self.aws.client("lambda").get_paginator("list_functions").paginate():
            for each in page["Functions"]:
                variables: Mapping[str, str] = each.get("Environment", {}).get("Variables", {})
                if variables.get("POWERTOOLS_SERVICE_NAME") == function:
                    return variables
        raise RuntimeError(f"function {function} is not deployed")


def records(*bodies: object) -> dict[str, Any]:
    attributes = {"ApproximateReceiveCount": "1"}
    return {
        "Records": [
            {
                "messageId": str(at),
                "body": json.dumps(body),
                "receiptHandle": "handle",
                "attributes": attributes,
            }
            for at, body in enumerate(bodies)
        ]
    }


def saved(aws: LocalAws, name: str, watch: bytes | None) -> dict[str, Any]:
    """A new run with one step, whose loss is NaN; the event of its index file."""
    storage = open_storage(f"s3://{BUCKET}/{name}/debug-output", client=aws.client("s3"))
    if watch is not None:
        storage.write("watch.json", watch)
    writer = RunWriter(storage, run_id=name)
    writer.write_collections([Collection("losses", tensor_names=("loss",))])
    writer.write(0, Mode.TRAIN, 0, [Captured("loss", np.float32([np.nan]))])
    key = f"{name}/debug-output/{index_key(0, 'worker_0')}"
    return records({"Records": [{"s3": {"bucket": {"name": BUCKET}, "object": {"key": key}}}]})


def news(name: str) -> dict[str, Any]:
    """The event by which ``evaluate`` has ``act`` look at the run."""
    found = RunNews(name, f"s3://{BUCKET}/{name}/debug-output", name, f"news of {name}")
    detail = msgspec.to_builtins(found)
    return records({"source": SOURCE, "detail-type": RUN_NEWS, "detail": detail})


def events(aws: LocalAws, number: int) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Name, function and event of each case, in the order in which they can be handled."""
    name = f"cold-{number}"
    yield "evaluate, one rule", "evaluate", saved(aws, name, ONE_RULE)
    yield "act", "act", news(name)
    yield "evaluate, all rules", "evaluate", saved(aws, f"{name}-all", None)
    yield "patrol", "patrol", {}


def measure(starter: Starter, repeats: int) -> dict[str, dict[str, Any]]:
    """Of each case: the medians of its CPU seconds and of the reference's, and the clients."""
    cpu: dict[str, list[float]] = {name: [] for name in TARGETS}
    bare: dict[str, list[float]] = {name: [] for name in TARGETS}
    imports: dict[str, list[float]] = {name: [] for name in TARGETS}
    clients: dict[str, list[str]] = {}
    for number in range(repeats + 1):
        for name, function, event in events(starter.aws, number):
            found = starter.start(function, {"event": event})
            clients[name] = found["clients"]
            reference = starter.start(function, {"clients": found["clients"]})
            if number:  # the first one compiles bytecode
                cpu[name].append(found["cpu"])
                imports[name].append(found["imports"])
                bare[name].append(reference["cpu"])
    return {
        name: {
            "cpu": statistics.median(cpu[name]),
            "imports": statistics.median(imports[name]),
            "bare": statistics.median(bare[name]),
            "ratio": statistics.median(cpu[name]) / statistics.median(bare[name]),
            "clients": clients[name],
        }
        for name in TARGETS
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, local_aws({"emails": ["a@example.com"]}) as aws:
        aws.client("s3").create_bucket(Bucket=BUCKET)
        aws.client("events").create_event_bus(Name=BUCKET)
        found = measure(Starter(aws, Path(folder), BUCKET), arguments.repeats)
    if arguments.json:
        print(json.dumps(found, indent=1))
        return
    print(f"{'first message':22}{'CPU':>9}{'bare':>9}{'ratio':>8}{'target':>8}  clients")
    for name, each in found.items():
        print(
            f"{name:22}{1000 * each['cpu']:6.0f} ms{1000 * each['bare']:6.0f} ms"
            f"{each['ratio']:8.2f}{TARGETS[name]:8.1f}  {' '.join(each['clients'])}"
        )


if __name__ == "__main__":
    main()

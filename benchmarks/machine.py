"""Measure the cost of watching a machine: ``python -m benchmarks.machine``.

The sampler's share of a core, how late it is beside a thread that computes without a pause, the
cost of timing a step, the time of a step with and without, the size of a minute's file, the
evaluation of a minute of many machines, a step that is recorded on request, and dollars a day:
calls of AWS, counted at botocore while the functions' own adapters work on an in-process AWS, at
the on-demand prices of us-east-1.
"""

from __future__ import annotations

import argparse
import platform
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

import numpy as np
from tocsin.evaluation import check
from tocsin.model import Mode
from tocsin.tensors import LocalStorage, open_storage
from tocsin.watch import Machine, Watch
from tocsin_hooks import Hook
from tocsin_hooks.machine import Minute, Timings, write_minutes
from tocsin_hooks.machine.cgroup import Cgroup
from tocsin_hooks.machine.nvml import Nvml
from tocsin_hooks.machine.proc import (
    Cpu,
    Disk,
    Memory,
    Network,
    Processes,
    RunQueue,
    Source,
)
from tocsin_hooks.machine.sampler import Sampler

_METRICS = ("GPUUtilization", "GPUMemoryUtilization", "MemoryUsedPercent", "Power", "Temperature")
_SAMPLES = 1000


def sources() -> list[Source]:
    """All of /proc, as a hook reads it."""
    limits = Cgroup()
    memory = Memory(limits=limits)
    return [Cpu(), memory, Disk(), Network(), Processes(), RunQueue(), limits.values]


class FakeLibrary:
    """NVIDIA's library with eight GPUs that answer at once: what our side of the calls costs."""

    NVMLError = RuntimeError
    NVML_ERROR_NOT_SUPPORTED, NVML_ERROR_GPU_IS_LOST = 3, 15
    NVML_TEMPERATURE_GPU = NVML_MEMORY_ERROR_TYPE_UNCORRECTED = NVML_VOLATILE_ECC = 0
    nvmlEventTypeXidCriticalError = 8  # noqa: N815 - its name

    def __getattr__(self, name: str) -> Callable[..., Any]:
        answers: dict[str, Any] = {
            "nvmlDeviceGetCount": 8,
            "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=80, memory=20),
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(used=30, total=40),
            "nvmlDeviceGetRemappedRows": (0, 0, 0, 0),
        }
        if name == "nvmlEventSetWait_v2":
            return self._timeout
        return lambda *_: answers.get(name, 0)

    def _timeout(self, *_: object) -> None:
        raise RuntimeError


def sampling() -> None:
    """CPU time of a sample, as a share of a core."""
    own = sources()
    variants = {"/proc": own, "/proc and 8 GPUs (fake)": [*own, Nvml(FakeLibrary())]}
    try:
        variants["/proc and the GPUs here"] = [*own, Nvml()]
    except (ImportError, OSError) as error:
        print(f"no GPU is measured: {error}")
    print(f"\n{'a sample of':28}{'CPU time':>10}{'at 500 ms':>11}{'at 100 ms':>11}")
    for name, listed in variants.items():
        sampler = Sampler(listed, 0.5, lambda *_: None)
        begun = time.process_time()
        for _ in range(_SAMPLES):
            sampler.sample()
        each = (time.process_time() - begun) / _SAMPLES
        print(f"{name:28}{1e3 * each:7.2f} ms{each / 0.5:11.2%}{each / 0.1:11.2%}")
    rare = [Processes(every=0.0), RunQueue(every=0.0)]
    begun = time.process_time()
    for _ in range(100):
        for source in rare:
            source()
    each = (time.process_time() - begun) / 100
    print(f"{'processes, every 5 s':28}{1e3 * each:7.2f} ms{each / 5:11.2%}{each / 5:11.2%}")


def jitter(seconds: float = 10.0) -> None:
    """Print how late samples are beside a thread that never lets go of the interpreter."""
    at: list[float] = []

    def note() -> dict[str, float]:
        at.append(time.monotonic())
        return {}

    ended = threading.Event()

    def compute() -> None:
        while not ended.is_set():
            sum(range(2000))

    worker = threading.Thread(target=compute)
    worker.start()
    sampler = Sampler([note], 0.1, lambda *_: None)
    begun = time.monotonic()
    sampler.start()
    time.sleep(seconds)
    sampler.close(5.0)
    ended.set()
    worker.join()
    late = sorted((moment - begun) % 0.1 for moment in at[:-1])
    missed = round(seconds / 0.1) - len(late)
    print(
        f"\nsamples each 100 ms beside a busy thread: {1e3 * median(late):.1f} ms late in the "
        f"median, {1e3 * late[int(0.99 * len(late))]:.1f} ms in 99 of 100, {missed} missed"
    )


def timing(steps: int = 200_000) -> None:
    """The cost of timing a step and its wait for data."""
    timings = Timings()
    begun = time.process_time()
    for _ in range(steps):
        timings.begin(Mode.TRAIN)
        timings.ended_before()
    step = (time.process_time() - begun) / steps
    print(f"\ntiming a step: {1e6 * step:.2f} µs", end="")
    with tempfile.TemporaryDirectory() as folder:
        watches = (Watch(), Watch(machine=Machine()), Watch())
        costs = []
        for number, watch in enumerate(watches):
            with Hook(Path(folder) / str(number), watch, save_interval=10**9) as hook:
                costs.append(_step_of(hook, steps // 10))
    print(
        f"; a step of a hook that saves nothing: {1e6 * (costs[0] + costs[2]) / 2:.1f} µs, and "
        f"{1e6 * costs[1]:.1f} µs with timings"
    )


def _step_of(hook: Hook, steps: int) -> float:
    begun = time.thread_time()
    for _ in range(steps):
        with hook.step():
            pass
    return (time.thread_time() - begun) / steps


def overhead(steps: int = 600) -> None:
    """A training step of ten milliseconds, with and without, which take turns.

    It is the CPU time of the training's thread, which other work on this machine does not change
    much; a sort runs on one core.
    """
    numbers = np.random.default_rng(0).normal(size=250_000)
    with tempfile.TemporaryDirectory() as folder:
        hooks = {
            name: Hook(Path(folder) / name, watch, save_interval=10**9)
            for name, watch in (("without", Watch()), ("with", Watch(machine=Machine())))
        }
        loaders = {name: iter(hook.data(range(steps))) for name, hook in hooks.items()}
        taken: dict[str, list[float]] = {name: [] for name in hooks}
        for at in range(steps):
            for name in sorted(hooks, reverse=at % 2 == 0):  # each comes first in half of them
                begun = time.thread_time()
                next(loaders[name])
                with hooks[name].step():
                    np.sort(numbers)
                taken[name].append(time.thread_time() - begun)
        for hook in hooks.values():
            hook.close()
    without = median(taken["without"])
    ratio = median(taken["with"]) / without
    print(
        f"a {1e3 * without:.1f} ms step that flushes the CPU caches, with ÷ without: {ratio:.4f} "
        f"(medians of {steps} each: {1e6 * without * (ratio - 1):.0f} µs more)"
    )


def large_minute() -> Minute:
    """A minute of a machine with 64 cores and 8 GPUs, at 500 ms, with 10,000 steps."""
    random = np.random.default_rng(0)
    names = [f"gpu{number}/{metric}" for number in range(8) for metric in (*_METRICS, "Slowdown")]
    names += ["cpu/CPUUtilization", "cpu/busiest", "cpu/I/OWaitPercentage", "process/rss"]
    names += ["memory/MemoryUsedPercent", "process/cpu", "process/workers", "i/o/IOPS"]
    names += [f"i/o/{way}ThroughputInBytesPerSecond" for way in ("Read", "Write")]
    names += [f"network/{way}BytesPerSecond" for way in ("Receive", "Transmit")]
    names += [f"gpu{number}/SMActive" for number in range(8)]
    names += ["cpu/StealPercentage", "process/runqueue"]
    series = {name: random.uniform(60, 90, 120).tolist() for name in names}
    steps = random.uniform(0.005, 0.006, 10_000).tolist()
    return Minute(60.0, series, dict.fromkeys(("TRAIN", "wait", "between", "forward"), steps))


def evaluation(nodes: int = 64, minutes: int = 6) -> None:
    """The size of a minute's file, and the time to evaluate a minute of many machines."""
    minute = large_minute()
    with tempfile.TemporaryDirectory() as folder:
        run = f"{folder}/profiler-output"
        write_minutes(run, [{f"node_{n}": minute for n in range(nodes)}] * minutes)
        storage = LocalStorage(run)
        size = max(item.size for item in storage.list("index/"))
        begun = time.process_time()
        check(open_storage(run))
        each = (time.process_time() - begun) / minutes
    print(f"\na minute of 64 cores and 8 GPUs: {size / 1000:.1f} kB")
    print(f"a minute of {nodes} such machines, read and judged by all rules: {1e3 * each:.0f} ms")


def tracing() -> None:
    """Print how much longer a step takes while PyTorch's profiler records it on request."""
    from benchmarks._hooks_process import Failed, Process
    from tests.frameworks.environment import python_with

    with tempfile.TemporaryDirectory() as folder:
        try:
            log = Path(folder) / "log"
            with Process(python_with("torch"), "_step_trace_process", log=log) as process:
                found = process.answer()
        except (Failed, OSError, subprocess.CalledProcessError) as error:
            print(f"\nno step is recorded: {error}")
            return
    title = f"a step trace, torch {found['torch']}"
    print(f"\n{title:28}{'without':>10}{'with':>10}{'÷':>8}{'once':>10}{'stored':>9}")
    for name, each in found["models"].items():
        ratio, stored = each["with"] / each["without"], each["bytes"] / found["steps"]
        print(
            f"{name:28}{1e3 * each['without']:7.2f} ms{1e3 * each['with']:7.2f} ms{ratio:8.2f}"
            f"{1e3 * each['around']:7.0f} ms{stored / 1e3:6.0f} kB"
        )


def cost() -> None:
    """Dollars a day of a job's machines."""
    from tests.faults.cost import DOLLARS, POLLS_A_DAY, machine_day, minute_calls
    from tests.faults.room import DeployedRuns, aws_in_process

    columns = {"1 machine": (1, True), "8 machines": (8, True), "8, one by one": (8, False)}
    with aws_in_process():
        runs = DeployedRuns({})
        days = {
            name: machine_day(
                minute_calls(runs, nodes, together=together), nodes, 1 if together else nodes
            )
            for name, (nodes, together) in columns.items()
        }
    print(f"\n{'$ a day of a job':28}" + "".join(f"{name:>15}" for name in days))
    for what in days["1 machine"]:
        print(f"{what:28}" + "".join(f"{day[what]:15.4f}" for day in days.values()))
    print(f"{'all':28}" + "".join(f"{sum(day.values()):15.4f}" for day in days.values()))
    poll = POLLS_A_DAY * DOLLARS["s3.GetObject"]  # of STOP.json alone
    polls = "".join(f"{nodes * poll:15.4f}" for nodes, _ in columns.values())
    print(f"{'beside it, polls each 5 s':28}{polls}")


def main() -> None:
    argparse.ArgumentParser(
        "python -m benchmarks.machine",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    ).parse_args()
    print(f"{platform.machine()}, Python {platform.python_version()}, numpy {np.__version__}")
    sampling()
    jitter()
    timing()
    overhead()
    evaluation()
    tracing()
    cost()


if __name__ == "__main__":
    main()

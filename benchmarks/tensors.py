"""Reading and writing runs beside smdebug, opening large ones, and reducing tensors.

    python -m benchmarks.tensors [--rounds 3]

Job A is 1,000 steps of 50 scalars, job B 50 steps of 160 tensors, 10 MB a step. Both libraries
write them, and both read what smdebug wrote, value by value. They take turns, in memory where the
machine has a file system there, and the medians of all rounds are shown. smdebug runs in an
environment of its own: under Python 3.10 if there is one, for there its protobuf is compiled.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from tocsin import create_trial
from tocsin.model import Mode
from tocsin.tensors import (
    Captured,
    Collection,
    IndexFile,
    RunWriter,
    encode_index,
    index_key,
    open_storage,
    summarize,
)
from tocsin.tensors.crc32c import crc32c

from benchmarks._jobs import STEPS, read, tensors
from benchmarks._smdebug_python import smdebug_python

HERE = Path(__file__).parent
MEMORY = Path("/dev/shm")  # noqa: S108 - a file system in memory, and a folder of our own in it
FILES = (1_000, 10_000, 100_000)

Times = dict[str, list[float]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    print(f"{platform.machine()}, Python {platform.python_version()}, numpy {np.__version__}")
    compare(rounds)
    print()
    open_large_runs()
    print()
    reduce_tensors()


def compare(rounds: int) -> None:
    """smdebug and Tocsin in turns."""
    smdebug, ours = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    facts, peaks = {}, []
    for _ in range(rounds):
        with TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as name:
            folder = Path(name)
            facts = _run(smdebug_python(), HERE / "_smdebug.py", folder / "smdebug")
            for job in STEPS:
                for what in ("write", "open", "read"):
                    smdebug[f"{what} {job}"].append(facts[f"{what} {job}"])
                ours[f"write {job}"].append(write(job, folder / "tocsin" / job))
                opened, taken = read(create_trial, folder / "smdebug" / job)
                check(job, folder / "smdebug" / job, folder / "tocsin" / job)
                ours[f"open {job}"].append(opened)
                ours[f"read {job}"].append(taken)
            peaks.append(_run(sys.executable, HERE / "_memory.py", folder / "smdebug" / "B"))
    print(f"smdebug under Python {facts['python']}, protobuf: {facts['protobuf']}; ", end="")
    print(f"medians of {rounds} rounds")
    print(f"{'':36}{'smdebug':>10}{'Tocsin':>10}{'ratio':>8}")
    rows = {
        "read A": "read 50,000 scalars",
        "read B": "read 8,000 tensors, 524 MB",
        "write A": "write 50,000 scalars",
        "write B": "write 8,000 tensors, 524 MB",
        "open A": "open a finished run of 1,000 steps",
    }
    for key, what in rows.items():
        theirs, own = statistics.median(smdebug[key]), statistics.median(ours[key])
        print(f"{what:36}{_time(theirs):>10}{_time(own):>10}{theirs / own:>7.1f}×")
    peak = statistics.median(found["peak"] for found in peaks)
    grown = statistics.median(found["grown"] for found in peaks)
    print(f"memory while reading B one value at a time: {peak:.0f} MB, ", end="")
    print(f"{grown:.0f} MB more than before")


def write(job: str, path: Path) -> float:
    """Seconds that it takes to write a job, with checksums, types and shapes in the index."""
    writer = RunWriter(open_storage(path), run_id="benchmark")
    writer.write_collections([Collection("all", include_regex=(".*",))])
    values = tensors(job)
    start = time.perf_counter()
    for step in range(STEPS[job]):
        writer.write(step, Mode.TRAIN, step, [Captured(name, value) for name, value in values])
    taken = time.perf_counter() - start
    writer.close()
    return taken


def check(job: str, *paths: Path) -> None:
    """Checks the values of what was timed."""
    for trial in map(create_trial, paths):
        assert len(trial.steps()) == STEPS[job]
        for name, value in tensors(job):
            assert np.array_equal(trial.tensor(name).value(trial.steps()[-1]), np.atleast_1d(value))


def open_large_runs() -> None:
    """Opening grows with the number of index files, a refresh without news does not."""
    print(f"{'running, index files':24}{'open':>10}{'a file':>10}{'refresh, nothing new':>24}")
    for count in FILES:
        with TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as name:
            storage = open_storage(name)
            RunWriter(storage).write_collections([Collection("all", include_regex=(".*",))])
            for step in range(count):
                index = IndexFile(step, "worker_0", Mode.TRAIN, step, None, None, ())
                storage.write(index_key(step, "worker_0"), encode_index(index))
            start = time.perf_counter()
            trial = create_trial(name)
            found = len(trial.steps())
            opened = time.perf_counter() - start
            assert found == count
            time.sleep(2.5)  # a folder that has just changed may still change
            refreshed = _median(trial.refresh, 50)
        print(f"{count:<24,}{_time(opened):>10}{_time(opened / count):>10}{_time(refreshed):>24}")


def reduce_tensors() -> None:
    rng = np.random.default_rng(0)
    print(f"{'summarize':36}{'with fingerprint':>20}{'without':>20}")
    for size in (1, 100, 10_000, 1_000_000):
        value = rng.standard_normal(size).astype(np.float32)
        times = [
            _median(lambda v=value, f=full: summarize(v, fingerprint=f), 200 if size < 1e6 else 20)
            for full in (True, False)
        ]
        cells = [f"{_time(t)} {value.nbytes / t / 1e9:5.2f} GB/s" for t in times]
        print(f"{size:>12,} float32{'':16}{cells[0]:>20}{cells[1]:>20}")
    data = rng.bytes(10_000_000)
    taken = _median(lambda: crc32c(data), 10)
    print(f"true checksum of a record of 10 MB  {_time(taken)} {len(data) / taken / 1e9:.2f} GB/s")


def _run(python: Path | str, script: Path, *arguments: Path) -> dict[str, float]:
    command = [str(python), str(script), *map(str, arguments)]
    # smdebug sleeps for a second when a run has ended, which is not reading time.
    environment = {**os.environ, "SMDEBUG_TRAINING_END_DELAY_REFRESH": "0"}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    answer: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return answer


def _median(function: Callable[[], object], times: int) -> float:
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        function()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def _time(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:.1f} µs"
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


if __name__ == "__main__":
    main()

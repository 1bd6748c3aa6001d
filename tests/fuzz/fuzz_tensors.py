"""Feed the readers of event, index and collections files with anything, for a minute.

    python tests/fuzz/fuzz_tensors.py [--seconds 60]

Fails on an exception that is not one of the readers' own, on an input that takes longer than ten
seconds, and on one that makes them take far more memory than it has bytes. The input that did it
is kept in .cache/fuzz. Makes .venv-fuzz with atheris when it is first run.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from tocsin.tensors import frames

from local.interpreter import interpreter

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
KEPT = ROOT / ".cache" / "fuzz"
RUNS = ROOT / "tests" / "fixtures" / "smdebug"
LARGEST = 8192  # bytes of a seed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60)
    seconds = parser.parse_args().seconds
    python = interpreter(ROOT / ".venv-fuzz", HERE / "requirements.txt")
    seeds = KEPT / "seeds"
    seeds.mkdir(parents=True, exist_ok=True)
    plant(seeds)
    done = subprocess.run(
        [
            *(python, HERE / "target_tensors.py", seeds),
            *(f"-max_total_time={seconds}", "-timeout=10", "-rss_limit_mb=2048"),
            *(f"-artifact_prefix={KEPT}/", "-max_len=65536", "-print_final_stats=1"),
        ],
        env=os.environ | {"PYTHONPATH": str(ROOT / "rules_layer")},
        check=False,
    )
    sys.exit(done.returncode)


def plant(seeds: Path) -> None:
    """Small files of smdebug's runs and their records, behind the number of their reader."""
    for path in RUNS.rglob("*"):
        name = "_".join(path.relative_to(RUNS).parts)
        if not path.is_file() or not 0 < path.stat().st_size < LARGEST:
            continue
        data = path.read_bytes()
        if path.suffix == ".json":
            (seeds / f"index_{name}").write_bytes(bytes([2]) + data)
            (seeds / f"collections_{name}").write_bytes(bytes([3]) + data)
        elif path.suffix == ".tfevents":
            (seeds / f"file_{name}").write_bytes(bytes([1]) + data)
            for number, frame in enumerate(frames(data)):
                (seeds / f"record_{number}_{name}").write_bytes(bytes([0]) + frame[12:-4])
                (seeds / f"event_{number}_{name}").write_bytes(bytes([4]) + frame)


if __name__ == "__main__":
    main()

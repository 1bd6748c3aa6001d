"""Measures the memory of a process that reads a run one value at a time, as JSON: RUN."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from _jobs import read
from tocsin import create_trial


def peak() -> float:
    """The most memory that this process ever had, in MB; pages of mapped files count."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if "VmHWM" in line) / 1000


if __name__ == "__main__":
    create_trial(sys.argv[1])
    before = peak()
    read(create_trial, sys.argv[1])
    print(json.dumps({"peak": peak(), "grown": peak() - before}))

"""Reads the limits of a container: a process may use 4 of 96 cores, which then look idle."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_NO_LIMIT = 1 << 60  # bytes; version 1 writes a huge number in place of none


@dataclass(frozen=True)
class Limit:
    """The use of a container in % of its limits; None without a limit.

    memory: without the files that are cached and could be dropped.
    cpu: since the last reading.
    throttled: the share of periods in which it had to wait for CPU time, since the last reading.
    """

    memory: float | None = None
    cpu: float | None = None
    throttled: float | None = None


Limits = Callable[[], Limit]


def no_limits() -> Limit:
    return Limit()


class Cgroup:
    """Reads control groups of version 2, and else of version 1."""

    def __init__(self, root: Path = Path("/sys/fs/cgroup"), proc: Path = Path("/proc")) -> None:
        self._files = _version_2(root, proc) or _version_1(root)
        self._before: tuple[float, int, int, int] | None = None
        self._at = 0.0
        self._known = Limit()

    def __call__(self) -> Limit:
        now = time.monotonic()
        if self._at and now - self._at < 0.02:  # several sources ask at each sample
            return self._known
        self._at = now
        cpu, throttled = self._cpu(now)
        self._known = Limit(self._memory(), cpu, throttled)
        return self._known

    def values(self) -> Mapping[str, float]:
        """Return a sample of the CPU limit; empty without one."""
        found = self()
        named = {"cgroup/CPUUtilization": found.cpu, "cgroup/throttled": found.throttled}
        return {name: value for name, value in named.items() if value is not None}

    def _memory(self) -> float | None:
        limit = _number(self._files.get("limit"))
        used = _number(self._files.get("usage"))
        if limit is None or used is None or not 0 < limit < _NO_LIMIT:
            return None
        stat = _table(self._files.get("memory_stat"))
        cached = stat.get("total_inactive_file", stat.get("inactive_file", 0))
        return 100 * max(0, used - cached) / limit

    def _cpu(self, now: float) -> tuple[float | None, float | None]:
        cores = self._cores()
        stat = _table(self._files.get("cpu_stat"))
        used = stat.get("usage_usec")
        if used is None and (nanoseconds := _number(self._files.get("cpu_usage"))) is not None:
            used = nanoseconds // 1000
        if cores is None or used is None:
            return None, None
        before = self._before
        periods, throttled = stat.get("nr_periods", 0), stat.get("nr_throttled", 0)
        self._before = now, used, periods, throttled
        if before is None or now <= before[0]:
            return None, None
        share = (throttled - before[3]) / max(1, periods - before[2])
        return (used - before[1]) / 1e4 / (now - before[0]) / cores, share

    def _cores(self) -> float | None:
        """The number of cores that the container may use; None without a limit."""
        text = _text(self._files.get("cpu_max"))
        parts = text.split() if text else []
        if len(parts) < 2:  # version 1 has two files
            parts = [_text(self._files.get("quota")) or "", _text(self._files.get("period")) or ""]
        with suppress(ValueError):
            quota, period = int(parts[0]), int(parts[1])
            return quota / period if quota > 0 and period > 0 else None
        return None


def _version_2(root: Path, proc: Path) -> dict[str, Path] | None:
    path = ""
    for line in (_text(proc / "self" / "cgroup") or "").splitlines():
        if line.startswith("0::/"):
            path = line[4:]
    for folder in (root / path, root):
        if (folder / "cpu.stat").is_file():
            return {
                "limit": folder / "memory.max",
                "usage": folder / "memory.current",
                "memory_stat": folder / "memory.stat",
                "cpu_max": folder / "cpu.max",
                "cpu_stat": folder / "cpu.stat",
            }
    return None


def _version_1(root: Path) -> dict[str, Path]:
    return {
        "limit": root / "memory" / "memory.limit_in_bytes",
        "usage": root / "memory" / "memory.usage_in_bytes",
        "memory_stat": root / "memory" / "memory.stat",
        "quota": root / "cpu" / "cpu.cfs_quota_us",
        "period": root / "cpu" / "cpu.cfs_period_us",
        "cpu_stat": root / "cpu" / "cpu.stat",
        "cpu_usage": root / "cpuacct" / "cpuacct.usage",
    }


def _text(file: Path | None) -> str | None:
    """The content; None where there is no such file, as in many containers."""
    try:
        return None if file is None else file.read_text()
    except OSError:
        return None


def _number(file: Path | None) -> int | None:
    with suppress(ValueError):
        return int(_text(file) or "")
    return None


def _table(file: Path | None) -> dict[str, int]:
    pairs = (line.split() for line in (_text(file) or "").splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}

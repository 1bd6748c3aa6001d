"""Reads Linux's /proc: processors, memory, disks, network, and a process with its children."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tocsin_hooks.machine.cgroup import Limits, no_limits

PROC = Path("/proc")

Values = Mapping[str, float]
"""The values of one sample by the name of their series."""

Source = Callable[[], Values]
"""Takes a sample. Rates are since the sample before, so the first has none. Raises OSError."""

_SECTOR = 512  # bytes, whatever the disk says
_DISK = re.compile(r"(?:s|v|xv|h)d[a-z]+|nvme\d+n\d+|mmcblk\d+")  # whole ones, without partitions
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_MOST_PROCESSES = 1000


class _Core(NamedTuple):
    """The ticks of a core since the start of the machine."""

    total: int
    busy: int
    waiting: int
    stolen: int


class Cpu:
    """The mean of all cores, the busiest core, the core that waits most for disks, and what the
    hypervisor gave to others, in %.
    """

    def __init__(self, root: Path = PROC) -> None:
        self._file = root / "stat"
        self._before: list[_Core] = []
        self()

    def __call__(self) -> Values:
        now = [_core(line) for line in self._file.read_bytes().split(b"\n") if _is_core(line)]
        before, self._before = self._before, now
        if len(before) != len(now):
            return {}
        pairs = [(b, n) for b, n in zip(before, now, strict=True) if n.total > b.total]
        busy = [100 * (n.busy - b.busy) / (n.total - b.total) for b, n in pairs]
        waiting = [100 * (n.waiting - b.waiting) / (n.total - b.total) for b, n in pairs]
        stolen = [100 * (n.stolen - b.stolen) / (n.total - b.total) for b, n in pairs]
        if not busy:
            return {}
        return {
            "cpu/CPUUtilization": sum(busy) / len(busy),
            "cpu/busiest": max(busy),
            "cpu/I/OWaitPercentage": max(0.0, *waiting, 0.0),
            "cpu/StealPercentage": max(0.0, sum(stolen) / len(stolen)),
        }


class Memory:
    """The memory in use, in % of the host's or, where it is less, of the container's."""

    def __init__(self, root: Path = PROC, limits: Limits = no_limits) -> None:
        self._file = root / "meminfo"
        self._limits = limits
        self()

    def __call__(self) -> Values:
        found = dict(_memory(self._file.read_text()))
        total, available = found["MemTotal"], found["MemAvailable"]
        used = 100 * (1 - available / total) if total else 0.0
        own = self._limits().memory
        return {"memory/MemoryUsedPercent": used if own is None else max(used, own)}


class Disk:
    """Operations and bytes per second of all disks together."""

    def __init__(self, root: Path = PROC) -> None:
        self._file = root / "diskstats"
        self._rates = Rates()
        self()

    def __call__(self) -> Values:
        operations = read = written = 0
        for line in self._file.read_text().splitlines():
            fields = line.split()
            if len(fields) > 9 and _DISK.fullmatch(fields[2]):
                operations += int(fields[3]) + int(fields[7])
                read += int(fields[5]) * _SECTOR
                written += int(fields[9]) * _SECTOR
        counts = {
            "i/o/IOPS": operations,
            "i/o/ReadThroughputInBytesPerSecond": read,
            "i/o/WriteThroughputInBytesPerSecond": written,
        }
        return self._rates(counts)


class Network:
    """Bytes per second through all interfaces but the loopback."""

    def __init__(self, root: Path = PROC) -> None:
        self._file = root / "net" / "dev"
        self._rates = Rates()
        self()

    def __call__(self) -> Values:
        received = sent = 0
        for line in self._file.read_text().splitlines()[2:]:
            name, _, numbers = line.partition(":")
            fields = numbers.split()
            if name.strip() != "lo" and len(fields) > 8:
                received += int(fields[0])
                sent += int(fields[8])
        counts = {
            "network/ReceiveBytesPerSecond": received,
            "network/TransmitBytesPerSecond": sent,
        }
        return self._rates(counts)


class TreeUse:
    """The CPU use of a process tree, from two readings."""

    def __init__(self) -> None:
        self._cpu: Mapping[int, float] = {}
        self._at = 0.0

    def __call__(self, now: float, resident: float, cpu: Mapping[int, float]) -> Values:
        """``cpu``: of each process the seconds of CPU so far. Shares are in % of a core."""
        values = {"process/rss": resident, "process/workers": float(max(0, len(cpu) - 1))}
        if self._cpu:
            used = sum(seconds - self._cpu.get(pid, 0.0) for pid, seconds in cpu.items())
            values["process/cpu"] = 100 * max(0.0, used) / (now - self._at)
        self._cpu, self._at = cpu, now
        return values


class Processes:
    """Resident bytes and CPU (% of a core) of a process and its descendants, and how many those
    are. Reads every ``every`` seconds, because it costs most; in between it gives nothing.
    """

    def __init__(self, root: Path = PROC, pid: int = 0, every: float = 5.0) -> None:
        self._root = root
        self._pid = pid or os.getpid()
        self._every = every
        self._next = 0.0
        self._use = TreeUse()

    def __call__(self) -> Values:
        now = time.monotonic()
        if now < self._next:
            return {}
        self._next = now + self._every
        found = dict(self._tree())
        cpu = {pid: ticks / _TICKS for pid, (ticks, _) in found.items()}
        return self._use(now, float(sum(resident for _, resident in found.values())), cpu)

    def _tree(self) -> Iterator[tuple[int, tuple[int, int]]]:
        """Each process with its CPU time in ticks and its resident bytes."""
        waiting, seen = [self._pid], {self._pid}
        while waiting and len(seen) < _MOST_PROCESSES:
            pid = waiting.pop()
            folder = self._root / str(pid)
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                resident = int((folder / "statm").read_text().split()[1]) * _PAGE
                children = [int(child) for child in _children(folder)]
            except (OSError, IndexError):
                if pid == self._pid:
                    raise
                continue  # it has just ended
            yield pid, (int(fields[11]) + int(fields[12]), resident)
            waiting += [child for child in children if child not in seen]
            seen.update(children)


class RunQueue:
    """The time that a process was ready and waited for a core, in % of the time: its thread that
    waited longest counts.

    It is what other work on the machine, or the CPU limit of a container, takes from a training.
    Reads every ``every`` seconds; in between it gives nothing.
    """

    def __init__(self, root: Path = PROC, pid: int = 0, every: float = 5.0) -> None:
        self._threads = root / str(pid or os.getpid()) / "task"
        self._every = every
        self._next = 0.0
        self._at = time.monotonic()
        self._before = dict(self._waited())
        if not self._before:
            raise OSError(f"{self._threads}: the kernel keeps no schedstat")

    def __call__(self) -> Values:
        now = time.monotonic()
        if now < self._next or now <= self._at:
            return {}
        self._next = now + self._every
        waited, before, since = dict(self._waited()), self._before, now - self._at
        self._before, self._at = waited, now
        longest = max((each - before.get(name, 0) for name, each in waited.items()), default=0)
        return {"process/runqueue": 100 * max(0, longest) / 1e9 / since}

    def _waited(self) -> Iterator[tuple[str, int]]:
        """Each thread with the nanoseconds that it has waited so far."""
        for thread in self._threads.iterdir():
            with suppress(OSError, IndexError):  # the thread has ended
                yield thread.name, int((thread / "schedstat").read_text().split()[1])


class Rates:
    """Turns counts into rates per second."""

    def __init__(self) -> None:
        self._before: Mapping[str, int] = {}
        self._at = 0.0

    def __call__(self, counts: Mapping[str, int]) -> Values:
        now = time.monotonic()
        before, since = self._before, now - self._at
        self._before, self._at = counts, now
        if not before or since <= 0:
            return {}
        return {name: max(0.0, (count - before[name]) / since) for name, count in counts.items()}


def _is_core(line: bytes) -> bool:
    return line.startswith(b"cpu") and line[3:4].isdigit()


def _core(line: bytes) -> _Core:
    """Guests are part of user time. Interrupts and stolen time follow that of waiting."""
    user, nice, system, idle, wait, *more = map(int, line.split()[1:9])
    busy = user + nice + system + sum(more)
    return _Core(busy + idle + wait, busy, wait, more[2] if len(more) > 2 else 0)


def _memory(text: str) -> Iterator[tuple[str, int]]:
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        if name in ("MemTotal", "MemAvailable"):
            yield name, int(rest.split()[0])


def _children(folder: Path) -> Iterator[str]:
    for task in (folder / "task").iterdir():
        try:
            yield from (task / "children").read_text().split()
        except FileNotFoundError:  # the thread has ended
            continue

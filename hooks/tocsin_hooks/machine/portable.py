"""Reads a machine without /proc (macOS, Windows), where the package psutil is installed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

from tocsin_hooks.machine.proc import Rates, Source, TreeUse, Values

_LOOPBACK = ("lo", "loopback")


def portable_sources(
    pid: int = 0, every: float = 5.0, *, processes: bool = True, library: Any = None
) -> list[Callable[[], Source]]:
    """Makers of the sources, which give the series of /proc. Raises ImportError without psutil.

    ``pid`` is the process whose tree is measured every ``every`` seconds; 0 is this one.
    """
    psutil = library or import_module("psutil")
    makers: list[Callable[[], Source]] = [
        lambda: Cpu(psutil),
        lambda: Memory(psutil),
        lambda: Disk(psutil),
        lambda: Network(psutil),
    ]
    if processes:
        makers.append(lambda: Processes(psutil, pid, every))
    return makers


class Cpu:
    """The mean of all cores and the busiest core, in %."""

    def __init__(self, psutil: Any) -> None:
        self._psutil = psutil
        self()  # the first answer has no interval

    def __call__(self) -> Values:
        cores = self._psutil.cpu_percent(percpu=True)
        if not cores:
            return {}
        return {"cpu/CPUUtilization": sum(cores) / len(cores), "cpu/busiest": max(cores)}


class Memory:
    """The memory in use, in % of the host's."""

    def __init__(self, psutil: Any) -> None:
        self._psutil = psutil
        self()

    def __call__(self) -> Values:
        return {"memory/MemoryUsedPercent": float(self._psutil.virtual_memory().percent)}


class Disk:
    """Operations and bytes per second of all disks together."""

    def __init__(self, psutil: Any) -> None:
        self._psutil = psutil
        self._rates = Rates()
        self()

    def __call__(self) -> Values:
        found = self._psutil.disk_io_counters()
        if found is None:  # there is no disk
            return {}
        counts = {
            "i/o/IOPS": found.read_count + found.write_count,
            "i/o/ReadThroughputInBytesPerSecond": found.read_bytes,
            "i/o/WriteThroughputInBytesPerSecond": found.write_bytes,
        }
        return self._rates(counts)


class Network:
    """Bytes per second through all interfaces but the loopback."""

    def __init__(self, psutil: Any) -> None:
        self._psutil = psutil
        self._rates = Rates()
        self()

    def __call__(self) -> Values:
        found = self._psutil.net_io_counters(pernic=True)
        own = [each for name, each in found.items() if not name.lower().startswith(_LOOPBACK)]
        counts = {
            "network/ReceiveBytesPerSecond": sum(each.bytes_recv for each in own),
            "network/TransmitBytesPerSecond": sum(each.bytes_sent for each in own),
        }
        return self._rates(counts)


class Processes:
    """Resident bytes and CPU (% of a core) of a process and its descendants, and how many those
    are; every ``every`` seconds, and nothing in between.
    """

    def __init__(self, psutil: Any, pid: int, every: float) -> None:
        self._psutil = psutil
        self._process = psutil.Process(pid or os.getpid())
        self._every = every
        self._next = 0.0
        self._use = TreeUse()

    def __call__(self) -> Values:
        now = time.monotonic()
        if now < self._next:
            return {}
        self._next = now + self._every
        resident, cpu = 0, dict[int, float]()
        for process in [self._process, *self._process.children(recursive=True)]:
            try:
                times = process.cpu_times()
                resident += process.memory_info().rss
            except self._psutil.Error:
                if process is self._process:
                    raise
                continue  # it has just ended
            cpu[process.pid] = times.user + times.system
        return self._use(now, float(resident), cpu)

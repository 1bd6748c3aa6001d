"""Watches the machine of a training: its minutes are the steps of a run beside the training's."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from tocsin.model import Mode
from tocsin.profile.minute import Minute, entries
from tocsin.tensors import RunWriter, is_machine_run, machine_run, open_storage
from tocsin.watch import Capture, Machine, Watch

from tocsin_hooks.machine.cgroup import Cgroup
from tocsin_hooks.machine.node import Claim, Node, this_node
from tocsin_hooks.machine.nvml import Nvml
from tocsin_hooks.machine.portable import portable_sources
from tocsin_hooks.machine.proc import (
    PROC,
    Cpu,
    Disk,
    Memory,
    Network,
    Processes,
    RunQueue,
    Source,
)
from tocsin_hooks.machine.sampler import MINUTE, MinuteClock, Sampler
from tocsin_hooks.settings import CaptureSettings
from tocsin_hooks.step import CapturedStep
from tocsin_hooks.stop import StopFile
from tocsin_hooks.timings import Timings
from tocsin_hooks.uploader import Uploader

_log = logging.getLogger("tocsin")

SAMPLED = "TOCSIN_MACHINE"
"""The environment variable that names the machine run of a process that samples for its child."""

_PROCESSES = 12  # readings of the processes in a minute: they cost most
_MINUTE = "TOCSIN_MINUTE"  # seconds of a minute, where a demo or a test is in a hurry


class MachineWatch:
    """Samples a machine, and writes a minute each minute until it is closed.

    Raises ValueError and OSError where that cannot work.

    Parameters
    ----------
    run: the URL of the training's run, or of its machine run.
    machine: what is measured.
    watch: the watch file for the machine run; None: the deployment's.
    run_id: names this start of the job.
    timings: where the hook collects the durations of steps; None: steps are not timed.
    node: this machine; default: as the environment says.
    pid: the process whose tree is measured; default: this one.
    """

    def __init__(
        self,
        run: str,
        machine: Machine,
        watch: Watch | None,
        run_id: str,
        timings: Timings | None = None,
        node: Node | None = None,
        pid: int = 0,
    ) -> None:
        url = run if is_machine_run(run) else machine_run(run)
        storage = open_storage(url)
        node = node or this_node(os.environ)
        clock = MinuteClock(_length())
        settings = CaptureSettings(Capture(), watch)
        before = max(0, clock.number(clock.now()) - 1)
        # Minutes never come again, so a restart takes nothing back of what was before it.
        started = time.time()
        writer = RunWriter(storage, node.name, run_id=run_id, resumed_from=before, started=started)
        self.url = url
        self.worker = node.name
        self._first = node.first
        self._uploader = Uploader(storage, writer, settings, node.count)
        sources = [*_sources(machine, pid, clock.length / _PROCESSES)]
        if not sources and timings is None:
            raise OSError("neither /proc nor a GPU can be read, and steps are not timed")
        self._sampler = Sampler(sources, machine.seconds, self._put, timings, clock)
        self._sampler.start()

    def close(self, *, marker: bool, timeout: float) -> bool:
        """Write the current minute and, if asked on the first node, the end marker.

        Returns False if not all could be written in ``timeout`` seconds.
        """
        begun = time.monotonic()
        self._sampler.close(timeout)
        left = max(0.0, timeout - (time.monotonic() - begun))
        return self._uploader.close(marker=marker and self._first, timeout=left)

    def leave(self) -> None:
        """End without waiting, and without the end marker."""
        self._sampler.close(0.0)

    def _put(self, number: int, minute: Minute) -> None:
        if self._uploader.broken or self._uploader.full:
            return
        tensors = {each.name: each for each in entries(minute)}
        self._uploader.put(CapturedStep(number, Mode.GLOBAL, number, tensors))


class MachineOfHook:
    """The machine watch of a hook: at most one, from the first watch file on that asks for it."""

    def __init__(self, run: str, run_id: str, started: float) -> None:
        self._run = run
        self._run_id = run_id
        self._started = started
        self._claim: Claim | None = None
        self._stop: StopFile | None = None
        self.watch: MachineWatch | None = None
        self.timings: Timings | None = None

    def follow(self, watch: Watch | None) -> None:
        """Begin to watch the machine if a watch file asks for it and no other process does."""
        if self._claim is not None or watch is None or watch.machine is None:
            return
        url = machine_run(self._run)
        self._stop = StopFile(open_storage(url), self._run_id, self._started)
        if os.environ.get(SAMPLED):
            return
        self._claim = Claim(url)
        if not self._claim.granted:
            return
        timings = Timings() if watch.machine.steps else None
        self.watch = MachineWatch(url, watch.machine, watch, self._run_id, timings)
        self.timings = timings

    @property
    def stop_requested(self) -> bool:
        """Return whether a rule about the machine has asked for a stop."""
        return self._stop is not None and self._stop.requested

    def look(self) -> None:
        """Look for a request to stop, once the machine is watched."""
        if self._stop is not None:
            self._stop.look()

    def close(self, *, marker: bool, timeout: float) -> None:
        watch, self.watch = self.watch, None
        if watch is not None and not watch.close(marker=marker, timeout=timeout):
            _log.warning("%s is incomplete: it could not be written in %g s", watch.url, timeout)
        self._release()

    def leave(self) -> None:
        if self.watch is not None:
            self.watch.leave()
        self._release()

    def _release(self) -> None:
        if self._claim is not None:
            self._claim.release()


def _sources(machine: Machine, pid: int, every: float) -> Iterator[Source]:
    """Return the sources that can be read here. Warn once about others."""
    limits = Cgroup()
    missing = []
    for make in _makers(machine, pid, every, limits):
        try:
            yield make()
        except (OSError, LookupError, ValueError) as error:
            missing.append(str(error))
        except Exception as error:  # noqa: BLE001 - psutil has errors of its own
            missing.append(f"psutil: {type(error).__name__}: {error}")
    if missing:
        _log.warning("some machine metrics cannot be read and are left out: %s", "; ".join(missing))
    yield limits.values
    if machine.gpu is not False:
        try:
            yield Nvml()
        except (ImportError, OSError) as error:
            if machine.gpu is True or (Path("/dev/nvidiactl").exists()):
                hint = "" if isinstance(error, OSError) else ": pip install nvidia-ml-py"
                _log.warning("GPUs are not sampled: %s%s", error, hint)


def _makers(machine: Machine, pid: int, every: float, limits: Cgroup) -> list[Callable[[], Source]]:
    """Makers of the sources of a host: of /proc, or of psutil where there is none."""
    if not PROC.is_dir():
        try:
            return portable_sources(pid, every, processes=machine.processes)
        except ImportError:
            _log.warning("the host is not sampled: there is no %s; pip install psutil", PROC)
            return []
    makers: list[Callable[[], Source]] = [Cpu, lambda: Memory(limits=limits), Disk, Network]
    if machine.processes:
        makers += [
            lambda: Processes(pid=pid, every=every),
            lambda: RunQueue(pid=pid, every=every),
        ]
    return makers


def _length() -> float:
    """Seconds of a minute."""
    with suppress(KeyError, ValueError):
        return max(0.5, float(os.environ[_MINUTE]))
    return MINUTE

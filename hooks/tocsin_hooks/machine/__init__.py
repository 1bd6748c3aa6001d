"""The machine of a training: CPU, memory, disk, network and GPUs, and the time that steps take."""

from tocsin.profile.minute import Minute, entries

from tocsin_hooks.machine.node import Node
from tocsin_hooks.machine.watching import SAMPLED, MachineOfHook, MachineWatch
from tocsin_hooks.machine.writing import write_minutes
from tocsin_hooks.timings import TimedLoader, Timings

__all__ = [
    "SAMPLED",
    "MachineOfHook",
    "MachineWatch",
    "Minute",
    "Node",
    "TimedLoader",
    "Timings",
    "entries",
    "write_minutes",
]

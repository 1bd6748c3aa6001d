"""The arguments of a hook: those that cannot work are refused, the others meet the watch file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tocsin.tensors import index_key, parse_index_key
from tocsin.watch import Capture, Watch

from tocsin_hooks.budget import OVERHEAD
from tocsin_hooks.judge import Judge
from tocsin_hooks.settings import CaptureSettings, Interval, settings


@dataclass(frozen=True)
class HookArguments:
    """The arguments of ``Hook``, which says what they mean. Raises ValueError for one that is not
    valid.
    """

    watch: Watch | None
    interval: Interval | None
    capture: Capture | None
    configured: Capture | None
    include_workers: str | None
    max_overhead: float | None
    worker: str
    num_workers: int
    run_id: str | None
    resumed_from: int | None
    poll_interval: float
    usual_interval: int
    planned_steps: int | None = None
    without_loss: str | None = None
    judge: Judge = False
    checkpoints: str | Path | None = None

    def __post_init__(self) -> None:
        if self.num_workers < 1:
            raise ValueError(f"num_workers is {self.num_workers}, but must be at least 1")
        if parse_index_key(index_key(0, self.worker)) != (0, self.worker):
            raise ValueError(f"worker {self.worker!r} cannot be part of a file name")
        if not self.poll_interval > 0:  # it would look without a pause
            raise ValueError(f"poll_interval is {self.poll_interval}, but must be above 0")

    @property
    def first(self) -> bool:
        """Return whether this is the worker that reports, decides and writes the end marker."""
        return self.worker == "worker_0" or self.num_workers == 1

    def settings(self) -> CaptureSettings:
        """Return the settings. Those that the container has ``configured`` count where neither
        script nor file says anything.
        """
        silent = self.watch is None or self.watch.capture == Capture()
        capture = self.capture or (self.configured if silent else None)
        return settings(self.watch, self.interval, capture, self.usual_interval)

    def settings_for(self, watch: Watch) -> CaptureSettings:
        """Return the settings of a newer watch file; where it names no interval, ours stays."""
        named = watch.capture.save_interval is not None
        return settings(watch, None if named else self.interval, usual=self.usual_interval)

    def all_capture(self, settings: CaptureSettings) -> bool:
        """Return whether all workers capture. Raises ValueError where that is neither all nor
        one."""
        workers = self.include_workers or settings.include_workers
        if workers not in ("one", "all"):
            raise ValueError(f"include_workers is {workers!r}, but must be one or all")
        return workers == "all"

    def overhead(self, settings: CaptureSettings) -> float | None:
        """Return the share of the training's time that capturing may take; None: no limit."""
        left = self.max_overhead == OVERHEAD and settings.max_overhead is not None
        return settings.max_overhead if left else self.max_overhead

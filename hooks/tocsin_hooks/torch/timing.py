"""Times forward passes, and the end of an update, for the machine run."""

from __future__ import annotations

from collections import deque
from time import perf_counter
from typing import Any

import torch

from tocsin_hooks import Hook
from tocsin_hooks.machine import Timings

_EVERY = 10  # forward passes on a device, of which one is timed
_MOST_WAITING = 16  # pairs of events that the device has not reached


class TrainingTiming:
    """Adds to the hook's timings, where there are any.

    On a GPU a pair of events is recorded now and then, and read when the GPU has passed them: the
    host never waits. Elsewhere the host's clock counts.
    """

    def __init__(self, hook: Hook) -> None:
        self._hook = hook
        self._passes = 0
        self._begun: Any = None
        self._waiting = deque[tuple[Any, Any]](maxlen=_MOST_WAITING)

    def forward_begins(self, root: Any) -> None:
        """The forward pass of a training step begins."""
        self._begun = None
        timings = self._hook.timings
        if timings is None:
            return
        self._read(timings)
        self._passes += 1
        if not _is_on_gpu(root):
            self._begun = perf_counter()
        elif self._passes % _EVERY == 1:
            self._begun = torch.cuda.Event(enable_timing=True)
            self._begun.record()

    def forward_ends(self) -> None:
        """The forward pass in hand ends."""
        begun, self._begun = self._begun, None
        timings = self._hook.timings
        if begun is None or timings is None:
            return
        if isinstance(begun, float):
            timings.forward(perf_counter() - begun)
            return
        end = torch.cuda.Event(enable_timing=True)
        end.record()
        self._waiting.append((begun, end))

    def update_ends(self) -> None:
        """Handle an update of the model: the step ends here, or at a later update."""
        if (timings := self._hook.timings) is not None:
            timings.end()

    def _read(self, timings: Timings) -> None:
        while self._waiting and self._waiting[0][1].query():
            begun, end = self._waiting.popleft()
            timings.forward(begun.elapsed_time(end) / 1000)


def _is_on_gpu(root: Any) -> bool:
    first = next(root.parameters(), None)
    return first is not None and first.is_cuda

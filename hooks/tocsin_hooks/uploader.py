"""The background thread that writes steps, so that training does not wait for storage."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from queue import SimpleQueue

from tocsin.tensors import WATCH, Collection, RunWriter, Storage
from tocsin.watch import encode_watch, patterns

from tocsin_hooks.guard import Guard, guarded
from tocsin_hooks.settings import CaptureSettings
from tocsin_hooks.step import CapturedStep

_log = logging.getLogger("tocsin")
_MOST_STEPS = 64
_MOST_BYTES = 256 * 1024 * 1024
_MOST_FAILURES = 3
_MOST_NAMES = 1 << 18
_OFTEN = 100  # times the collections are written as soon as there is a new name,
_SELDOM = 60.0  # and then after so many seconds: a script may have new ones in every step


@dataclass(frozen=True)
class _Task:
    run: Callable[[], None]


def _nothing() -> None: ...


def _ignore(step: CapturedStep) -> None: ...


class Uploader:
    """Writes steps in the order in which they are put, one at a time.

    The files on storage make sense at any moment: the watch file and the collections are there
    before the first index file, an event file before its index file, and the end marker last.
    A step that cannot be written is given up. After three in a row ``broken`` is true and all
    others are given up, too. ``before`` is called with each step before it is written.

    ``close`` ends it, and so does ``leave``, after which ``close`` can still write the marker.
    """

    def __init__(
        self,
        storage: Storage,
        writer: RunWriter,
        settings: CaptureSettings,
        num_workers: int,
        before: Callable[[CapturedStep], None] = _ignore,
    ) -> None:
        self._storage = storage
        self._writer = writer
        self._watch = encode_watch(settings.watch) if settings.watch else None
        self._configured = settings.collections
        self._before = before
        self._num_workers = num_workers
        self._members: dict[str, set[str]] = {}
        self._collections_written = False
        self._names = 0
        self._rewritten = 0
        self._next_rewrite = 0.0
        self._queue = SimpleQueue["tuple[CapturedStep, int] | CaptureSettings | _Task | bool"]()
        # Each pair of counters is written by one thread only, so no lock is needed that a signal
        # handler could find taken.
        self._steps_in = self._bytes_in = 0
        self._steps_out = self._bytes_out = 0
        self._failures = 0
        self._after: Callable[[], None] = _nothing
        self._marked = False
        self.broken = False
        self.written = 0
        self.lost = 0
        self._thread = threading.Thread(target=self._run, name="tocsin-upload", daemon=True)
        self._thread.start()

    @property
    def begun(self) -> bool:
        """Return whether the run has this hook's watch file, if it is to have one."""
        return self._watch is None

    @property
    def used(self) -> bool:
        """Return whether any step was handed over."""
        return self._steps_in > 0

    @property
    def full(self) -> bool:
        """Return whether storage is so slow that the next step should not be captured."""
        steps = self._steps_in - self._steps_out
        return steps >= _MOST_STEPS or self._bytes_in - self._bytes_out >= _MOST_BYTES

    def configure(self, settings: CaptureSettings) -> None:
        """The collections that are written from the next step on."""
        self._queue.put(settings)

    def put(self, step: CapturedStep) -> None:
        nbytes = step.nbytes  # what it holds now: it changes as results come from a device
        self._steps_in += 1
        self._bytes_in += nbytes
        self._queue.put((step, nbytes))

    def close(self, *, marker: bool, timeout: float) -> bool:
        """Write what is waiting, the final collections and, if asked, the end marker.

        Returns False when that took longer than ``timeout`` seconds or could not be done.
        """
        self._queue.put(marker)
        self._thread.join(timeout)
        if self._thread.is_alive():
            return False
        if marker and not self._marked:  # the thread had ended before
            self._end(marker=True)
        return not self.broken

    def leave(self, last: Callable[[], None], after: Callable[[], None]) -> None:
        """Write what is waiting, call ``last``, write what it puts, and end the thread with a call
        of ``after``. Both are called in the background.

        Does not wait, and may be called in any thread while the garbage collector runs.
        """
        self._after = after
        self._queue.put(_Task(last))

    def _run(self) -> None:
        while not isinstance(item := self._queue.get(), bool):
            if isinstance(item, _Task):
                with Guard(self._failed, "the last step"):
                    item.run()
                self._queue.put(False)
                continue
            if isinstance(item, CaptureSettings):
                self._configured = item.collections
                self._collections_written = False
                continue
            with Guard(self._lost, "step %d", item[0].step):
                self._attempt(item[0])
            self._steps_out += 1
            self._bytes_out += item[1]
            del item  # it may hold a large step, and the next one may be long in coming
        self._end(marker=item)
        with Guard(self._failed, "what follows the end of the run"):
            self._after()
        self._before, self._after = _ignore, _nothing  # what they hold may be large

    @guarded(attrgetter("_failed"), "the end of the run")
    def _end(self, *, marker: bool) -> None:
        # A spawned child that only imports the script has a hook, too, which has seen nothing.
        if not self.broken and (marker or self.written):
            self._write_collections({}, last=True)
            self._writer.close(marker=marker)
            self._marked = marker

    def _attempt(self, step: CapturedStep) -> None:
        if self.broken:
            self.lost += 1
            return
        self._write(step)
        self.written += 1
        self._failures = 0

    def _lost(self, what: str, error: Exception) -> None:
        self.lost += 1
        self._failed(what, error)

    def _write(self, step: CapturedStep) -> None:
        step.settle()
        if step.empty:
            return
        self._before(step)
        if self._watch is not None:
            self._storage.write(WATCH, self._watch)
            self._watch = None
        self._write_collections(step.members)
        tensors = step.tensors.values()
        self._writer.write(step.step, step.mode, step.mode_step, tensors, step.checkpoint)

    def _write_collections(self, members: Mapping[str, set[str]], *, last: bool = False) -> None:
        """The collections file, when there is none yet or ``members`` has names that are new."""
        for name in self._configured:
            self._members.setdefault(name, set())
        for name, tensors in members.items():
            known = self._members.setdefault(name, set())
            if not tensors <= known and self._names < _MOST_NAMES:
                self._names += len(tensors - known)
                known |= tensors
                self._collections_written = False
        now = time.monotonic()
        if self._collections_written or (now < self._next_rewrite and not last):
            return
        collections = [
            Collection(
                name,
                include_regex=patterns(self._configured[name]) if name in self._configured else (),
                tensor_names=tuple(tensors),
            )
            for name, tensors in self._members.items()
        ]
        self._writer.write_collections(collections, self._num_workers)
        self._collections_written = True
        self._rewritten += 1
        self._next_rewrite = now + (_SELDOM if self._rewritten >= _OFTEN else 0.0)

    def _failed(self, what: str, error: Exception) -> None:
        self._failures += 1
        if self._failures == 1 and self.lost <= 1:
            _log.warning("%s could not be written to %s: %s", what, self._storage.url, error)
        if self._failures == _MOST_FAILURES:
            self.broken = True
            _log.error("capturing stops: %s cannot be written: %s", what, error)

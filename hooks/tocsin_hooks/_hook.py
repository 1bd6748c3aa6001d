"""The hook for any training loop: what a training script talks to."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
import uuid
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from tocsin.model import Mode, Role
from tocsin.tensors import RunWriter, Storage, index_key, open_storage, parse_index_key
from tocsin.watch import Watch

from tocsin_hooks._capture import capture
from tocsin_hooks._coverage import unmatched
from tocsin_hooks._memory import Memory
from tocsin_hooks._position import Position, Resumed
from tocsin_hooks._settings import Due, Interval, Schedule, Settings
from tocsin_hooks._settings import settings as read_settings
from tocsin_hooks._stop import Sigterm, StopFile
from tocsin_hooks._uploader import CapturedStep, Uploader
from tocsin_hooks._wishes import Saved, Wishes

_log = logging.getLogger("tocsin")
_AT_EXIT_SECONDS = 30.0


@dataclass(frozen=True)
class Stats:
    """What a hook has done: steps ``saved``, ``dropped`` because storage was behind, ``lost``
    because it failed; ``errors`` of tensors that could not be captured; ``seconds`` of training
    time that capturing took."""

    saved: int
    dropped: int
    lost: int
    errors: int
    seconds: float


class Hook:
    """Captures tensors of a training loop, and tells it when somebody asks for a stop.

    It never raises into the training and never makes it wait for storage: what cannot be
    captured is left out, steps that storage is too slow for are dropped, and a hook that cannot
    work switches itself off. Each is logged once (logger ``tocsin``) and counted in ``stats``.
    With ``TOCSIN=0`` in the environment a hook does nothing. In a forked child it does
    nothing either: the parent's loop is the one that is watched.

    The end. ``close`` writes what is waiting and the end marker, which says that the training is
    complete. There is no marker inside SageMaker, whose job state tells the end; nor after
    SIGTERM, because a restart may follow; nor after an exception. Without ``close`` what was
    saved is still written when the interpreter exits.

    SIGTERM is left to the script: by default Python ends at once, and saves of the last moment
    may be missing. After ``stop_on_sigterm()`` it makes ``should_stop`` true instead.

    Parameters
    ----------
    out: the run: a folder, ``s3://bucket/prefix``, or a Storage.
    watch: a watch file, as a path or as a Watch: what to capture, and ``<run>/watch.json``.
    save_interval: save every N steps of a mode, or N by mode; default: the watch file's, or 10.
    worker, num_workers: this process, and how many write to the run. Of several, ``worker_0``
        writes the end marker: let it wait for the others before ``close``.
    run_id: names this start of the job; processes of one start may share one. Default: a new one.
    resumed_from: the ``position`` of the hook that wrote the checkpoint taken up, or the last
        step that is in it. Steps are counted on from there.
    poll_interval: seconds between two looks for a stop request.

    Example
    -------
    >>> hook = Hook("s3://bucket/jobs/j1", save_interval=10)
    >>> for batch in batches:
    ...     with hook.step(modes.TRAIN):
    ...         hook.save("loss", train_on(batch), collection="losses")
    ...     if hook.should_stop:
    ...         break
    >>> hook.close()
    """

    def __init__(
        self,
        out: str | Path | Storage,
        watch: Watch | str | Path | None = None,
        save_interval: Interval | None = None,
        *,
        worker: str = "worker_0",
        num_workers: int = 1,
        run_id: str | None = None,
        resumed_from: Resumed | None = None,
        poll_interval: float = 5.0,
    ) -> None:
        self._pid = os.getpid()
        self._lock = threading.RLock()  # a signal handler may close while we do
        self._closed = False
        self._first = worker == "worker_0" or num_workers == 1
        self._position = Position()
        self._steps: list[CapturedStep | None] = []
        self._due: Due | None = None
        self._dropped = 0
        self._errors = 0
        self._seconds = 0.0
        self._checked = False
        self._sigterm: Sigterm | None = None
        self._stop_file: StopFile | None = None
        self._uploader: Uploader | None = None
        self._settings: Settings
        self._memory = Memory()
        if os.environ.get("TOCSIN") == "0":
            return
        try:
            self._position = Position(resumed_from)
            self._settings = _settings(watch, save_interval)
            self._schedule = Schedule(self._settings)
            self._wishes = Wishes(self._settings.watch)
            _check_worker(worker, num_workers)
            run_id = run_id or uuid.uuid4().hex
            storage = open_storage(out) if isinstance(out, str | Path) else out
            resumed = self._position.resumed_from
            writer = RunWriter(storage, worker, run_id=run_id, resumed_from=resumed)
            self._uploader = Uploader(storage, writer, self._settings, num_workers)
            self._stop_file = StopFile(storage, run_id, time.time(), poll_interval)
            atexit.register(self._at_exit)
        except Exception as error:  # noqa: BLE001 - a training must not end by this
            self._uploader = None
            _log.error("nothing is captured: %s", error)

    def step(self, mode: Mode = Mode.TRAIN) -> _Step:
        """A context for one step of ``mode``; the first has number 0."""
        return _Step(self, mode)

    @property
    def saving(self) -> bool:
        """Whether the step in hand is saved: worth asking before computing what to save."""
        return bool(self._steps) and self._steps[-1] is not None and os.getpid() == self._pid

    def save(
        self,
        name: str,
        value: object,
        collection: str | None = None,
        *,
        role: Role | None = None,
        kind: str | None = None,
        raw: bool | None = None,
    ) -> None:
        """Save a tensor of the step in hand, as it is now; a second one of a name replaces it.

        Losses, metrics and single numbers are kept as they are, others reduced to a summary
        unless ``raw``, the watch file or a rule asks for their values (a rule gets those of at
        most 1 MiB; ``raw=False`` keeps them from it). Takes numpy arrays, PyTorch
        tensors, whatever has ``__array__``, numbers, strings and lists of them.

        ``collection`` is by default the one whose patterns in the watch file match the name, and
        ``role`` follows from it (losses, metrics, weights, biases, gradients, inputs, labels,
        predictions …). ``kind`` says more, for example which activation: relu, tanh, sigmoid.
        """
        if not self._steps or (step := self._steps[-1]) is None or os.getpid() != self._pid:
            return
        started = time.perf_counter()
        try:
            collections = self._settings.collections_of(name, collection)
            if self._due is None or not self._due.wants(collections):
                return
            saved = Saved(name, collections, role, kind)
            step.tensors[name] = capture(
                saved,
                value,
                raw=self._settings.raw(collections) or None if raw is None else raw,
                wish=self._wishes.of(saved),
                exchange=partial(
                    self._memory.exchanged, f"{step.mode.name}/{name}", again=name in step.tensors
                ),
            )
            for each in collections:
                step.members.setdefault(each, set()).add(name)
        except Exception as error:  # noqa: BLE001 - a training must not end by this
            self._trouble(f"tensor {name!r:.200} is not captured", error)
        finally:
            self._seconds += time.perf_counter() - started

    @property
    def should_stop(self) -> bool:
        """Whether somebody asked for a stop: by ``STOP.json`` in the run, or by SIGTERM.

        Steady once it is true. SIGTERM counts after ``stop_on_sigterm()``.
        """
        asked = self._stop_file is not None and self._stop_file.requested
        return asked or (self._sigterm is not None and self._sigterm.received)

    def stop_on_sigterm(self) -> None:
        """From now on SIGTERM makes ``should_stop`` true; a second one ends the process.

        For scripts that look at ``should_stop`` in their loop: they get to the end of the step,
        save their checkpoint and close the hook. A handler that is there already is called as
        well. Call it in the main thread; elsewhere it does nothing but say so.
        """
        if self._sigterm is not None or os.getpid() != self._pid:
            return
        try:
            self._sigterm = Sigterm()
        except ValueError as error:
            _log.warning("SIGTERM does not stop the training: %s", error)

    @property
    def position(self) -> dict[str, int]:
        """Steps begun so far, by mode and altogether (GLOBAL): for a checkpoint, as JSON."""
        return self._position.counts

    @property
    def stats(self) -> Stats:
        uploader = self._uploader
        return Stats(
            uploader.written if uploader else 0,
            self._dropped,
            uploader.lost if uploader else 0,
            self._errors,
            self._seconds,
        )

    def close(self, *, finished: bool | None = None, timeout: float = 60.0) -> None:
        """Write what is waiting and, if the training is ``finished``, the end marker.

        ``finished`` is by default true for the first worker. Waits at most ``timeout`` seconds.
        Later calls do nothing.
        """
        if os.getpid() != self._pid:
            return
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._steps.clear()
            stopped = self._sigterm is not None and self._sigterm.received
            marker = self._first if finished is None else finished
            marker = marker and not stopped and "TRAINING_JOB_NAME" not in os.environ
            try:
                self._close(marker, timeout)
            except Exception as error:  # noqa: BLE001 - a training must not end by this
                _log.warning("the run was not closed: %s", error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close(finished=None if error is None else False)

    def _close(self, marker: bool, timeout: float) -> None:
        atexit.unregister(self._at_exit)
        if self._stop_file is not None:
            self._stop_file.close()
        if self._uploader and not self._uploader.close(marker=marker, timeout=timeout):
            _log.warning("the end of the run is missing: it could not be written in %g s", timeout)
        if self._sigterm is not None:
            self._sigterm.close()
        _log.info("%s", self.stats)

    def _at_exit(self) -> None:
        self.close(finished=False, timeout=_AT_EXIT_SECONDS)

    def _begin(self, mode: Mode) -> None:
        """Count a step, and decide whether it is saved. Steps do not nest: an inner one is not."""
        step = None
        try:
            mode = Mode(mode)
            number, mode_step = self._position.advance(mode)
            if self._uploader and not (self._uploader.broken or self._closed or self._steps):
                step = self._wanted(self._uploader, CapturedStep(number, mode, mode_step))
        except Exception as error:  # noqa: BLE001 - a training must not end by this
            self._trouble("a step is not captured", error)
        self._steps.append(step)

    def _wanted(self, uploader: Uploader, step: CapturedStep) -> CapturedStep | None:
        """The step, if it is due and there is room for it."""
        self._due = self._schedule.due(step.mode, step.mode_step, time.monotonic())
        if self._due is None:
            return None
        if uploader.full:
            self._dropped += 1
            if self._dropped == 1:
                _log.warning("storage is too slow: step %d is dropped, maybe others", step.step)
            return None
        return step

    def _end(self) -> None:
        step = self._steps.pop() if self._steps else None
        if not (step and step.tensors and self._uploader and os.getpid() == self._pid):
            return
        try:
            self._schedule.saved(step.mode, time.monotonic())
            self._uploader.put(step)
            if not self._checked:
                self._checked = True
                self._report_unmatched(step)
        except Exception as error:  # noqa: BLE001 - a training must not end by this
            self._trouble("a step is not captured", error)

    def _report_unmatched(self, step: CapturedStep) -> None:
        """Say right at the start which rules will have nothing to look at."""
        for rule in unmatched(self._settings.watch, step):
            _log.warning("no tensor so far for rule %s", rule)

    def _trouble(self, what: str, error: Exception) -> None:
        self._errors += 1
        if self._errors == 1:
            _log.warning("%s: %s", what, error)


class _Step:
    """One step of a hook, as a context."""

    __slots__ = ("_hook", "_mode")

    def __init__(self, hook: Hook, mode: Mode) -> None:
        self._hook = hook
        self._mode = mode

    def __enter__(self) -> None:
        self._hook._begin(self._mode)

    def __exit__(self, *raised: object) -> None:
        self._hook._end()


def _settings(watch: Watch | str | Path | None, interval: Interval | None) -> Settings:
    """What to capture; a watch file that cannot be used costs its wishes, not the capture."""
    default = read_settings(None, interval)
    try:
        return read_settings(watch, interval)
    except (ValueError, OSError) as error:
        _log.error("capturing without the watch file: %s", error)
        return default


def _check_worker(worker: str, num_workers: int) -> None:
    if num_workers < 1:
        raise ValueError(f"num_workers is {num_workers}, but must be at least 1")
    if parse_index_key(index_key(0, worker)) != (0, worker):
        raise ValueError(f"worker {worker!r} cannot be part of a file name")

"""The hook for any training loop: what a training script talks to."""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from tocsin.model import Mode, Role
from tocsin.tensors import Captured, Storage

from tocsin_hooks._budget import OVERHEAD
from tocsin_hooks._capture import capture as captured_of
from tocsin_hooks._capture import check_name
from tocsin_hooks._ending import ends_cleanly, runs_to_end, uncaught
from tocsin_hooks._memory import Memory
from tocsin_hooks._meter import Meter
from tocsin_hooks._plan import Plan
from tocsin_hooks._position import Position, Resumed
from tocsin_hooks._step import CapturedStep, Later
from tocsin_hooks._stop import Sigterm

if TYPE_CHECKING:  # the rules are loaded by the first hook that is made, not by an import
    from tocsin.watch import Capture, Watch
    from typing_extensions import Self

    from tocsin_hooks._schedule import Due
    from tocsin_hooks._selection import Collections
    from tocsin_hooks._session import Session
    from tocsin_hooks._settings import Interval

_log = logging.getLogger("tocsin")
_AT_EXIT_SECONDS = 30.0
_OF_SAGEMAKER = "TRAINING_JOB_NAME"


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
    With ``TOCSIN=0`` or ``USE_SMDEBUG=0`` in the environment a hook does nothing. In a forked
    child it does nothing either: the parent's loop is the one that is watched.

    The end. ``close`` writes what is waiting and the end marker, which says that the training is
    complete. Without ``close`` the same happens when the interpreter exits. There is no marker
    inside SageMaker, whose job state tells the end; nor after SIGTERM, because a restart may
    follow; nor after an uncaught exception, unless a further step came after it (notebooks).

    At exit ``sys.exit(1)`` cannot be seen, nor an exception that the script caught: use
    ``with Hook(…)``, which sees both, or ``close(finished=False)``. In a process of
    ``multiprocessing`` only ``close`` writes the marker.

    SIGTERM is left to the script: by default Python ends at once, and saves of the last moment
    may be missing. After ``stop_on_sigterm()`` it makes ``should_stop`` true instead.

    Parameters
    ----------
    out: the run: a folder, ``s3://bucket/prefix``, or a Storage. None: where SageMaker's
        ``debughookconfig.json`` says, else what ``TOCSIN_RUN`` says.
    watch: a watch file, as a path or as a Watch: what to capture, and ``<run>/watch.json``. None:
        what lies there already. One with an error is raised at once, as ValueError or OSError:
        the only thing that is.
    save_interval: save every N steps of a mode, or N by mode; default: the watch file's, or 10.
    capture: what to capture, in place of what the watch file says of it.
    include_workers: ``all``, or ``one``: then ``worker_0`` alone captures.
    max_overhead: the share of the training's time that capturing may take: when it takes more,
        steps are saved more rarely. None: no limit. The watch file's counts where this is left.
    worker, num_workers: this process, and how many write to the run. Of several, ``worker_0``
        writes the end marker: let it wait for the others before ``close``.
    run_id: names this start of the job; processes of one start may share one. Default: a new one.
    resumed_from: the ``position`` of the hook that wrote the checkpoint taken up, or the last
        step that is in it. Steps are counted on from there.
    poll_interval: seconds between two looks for a stop request and a newer watch file.

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
        out: str | Path | Storage | None = None,
        watch: Watch | str | Path | None = None,
        save_interval: Interval | None = None,
        *,
        capture: Capture | None = None,
        include_workers: str | None = None,
        max_overhead: float | None = OVERHEAD,
        worker: str = "worker_0",
        num_workers: int = 1,
        run_id: str | None = None,
        resumed_from: Resumed | None = None,
        poll_interval: float = 5.0,
    ) -> None:
        self._pid = os.getpid()
        self._lock = threading.RLock()  # a signal handler may close while we do
        self._closed = False
        self._left = False
        self._uncaught = uncaught()
        self._first = worker == "worker_0" or num_workers == 1
        self._position = Position()
        self._steps: list[CapturedStep | None] = []
        self._called = False
        self._due: Due | None = None
        self._errors = 0
        self._meter = Meter()
        self._metered = 0.0
        self._memory = Memory()
        self._sigterm: Sigterm | None = None
        self._session: Session | None = None
        from tocsin_hooks._container import destination, switched_off
        from tocsin_hooks._settings import given_watch

        asked = given_watch(watch)
        try:
            from tocsin_hooks._session import Session, Wanted

            self._position = Position(resumed_from)  # it counts, and goes into checkpoints, anyhow
            if switched_off():
                return
            run, configured = destination(out)
            self._session = Session(
                run,
                Wanted(
                    asked,
                    save_interval,
                    capture,
                    configured,
                    include_workers,
                    max_overhead,
                    worker,
                    num_workers,
                    run_id,
                    self._position.resumed_from,
                    poll_interval,
                ),
            )
            atexit.register(self._at_exit)
            self._session.on_retire = partial(atexit.unregister, self._at_exit)
        except Exception as error:  # noqa: BLE001 - a training must not end by this
            self._session = None
            _log.error("nothing is captured: %s", error)

    def step(self, mode: Mode = Mode.TRAIN) -> _Step:
        """A context for one step of ``mode``; the first has number 0."""
        return _Step(self, mode)

    def begin(self, mode: Mode = Mode.TRAIN) -> bool:
        """Begin a step, for loops that call back; whether it is saved.

        A step that was begun so and never ended ends by this.
        """
        if self._called:
            self.end()
        self._called = True
        self._begin(mode)
        return self.saving

    def end(self) -> None:
        """End the step that ``begin`` began."""
        if self._called:
            self._called = False
            self._end()

    @property
    def saving(self) -> bool:
        """Whether the step in hand is saved: worth asking before computing what to save."""
        return bool(self._steps) and self._steps[-1] is not None and os.getpid() == self._pid

    def save(
        self,
        name: str,
        value: object,
        collection: Collections = None,
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
        plan = self.plan(name, collection, role=role, kind=kind, raw=raw, asked=True)
        if plan is not None:
            self.capture(plan, value)

    def record_loss(self, loss: object, name: str = "loss") -> object:
        """Save a loss of the step in hand, and return it."""
        self.save(name, loss, "losses", role=Role.LOSS)
        return loss

    def wants(
        self,
        name: str,
        collection: Collections = None,
        *,
        role: Role | None = None,
        kind: str | None = None,
    ) -> bool:
        """Whether a rule, or the configuration, asks for such a tensor at all. Losses always."""
        if self._session is None:
            return False
        try:
            return self._session.selection.wants(name, collection, role, kind)
        except Exception as error:  # noqa: BLE001 - a training must not end by this
            self.trouble(f"tensor {name!r:.200} is not captured", error)
            return False

    def configured(self, collection: str) -> bool:
        """Whether the configuration names a collection, rules or not."""
        return self._session is not None and self._session.selection.settings.asked((collection,))

    def plan(
        self,
        name: str,
        collection: Collections = None,
        *,
        role: Role | None = None,
        kind: str | None = None,
        raw: bool | None = None,
        asked: bool = False,
    ) -> Plan | None:
        """How a tensor is captured in the step in hand.

        None: it is not, because the step is not saved, or it is not its collection's turn, or
        nobody wants it and the script has not ``asked`` for it by name.
        """
        if not self.saving or self._session is None or self._due is None:
            return None
        with self._meter:
            try:
                step = self._steps[-1]
                assert step is not None  # noqa: S101 - that is what `saving` says
                plan = self._session.selection.plan(
                    self._due, step.mode, name, collection, role, kind, asked=asked
                )
                if plan is None or raw is None:
                    return plan
                return Plan(plan.saved, plan.wish, raw, plan.reductions, plan.shape)
            except Exception as error:  # noqa: BLE001 - a training must not end by this
                self.trouble(f"tensor {name!r:.200} is not captured", error)
                return None

    def capture(self, plan: Plan, value: object) -> None:
        """Reduce a value of the host as ``plan`` has it, and add it to the step in hand."""
        step = self._steps[-1] if self.saving else None
        if step is None:
            return
        name = plan.saved.name
        with self._meter:
            try:
                since = partial(
                    self._memory.update, f"{step.mode.name}/{name}", again=name in step.tensors
                )
                for captured in captured_of(plan, value, since):
                    step.add(plan, captured)
            except Exception as error:  # noqa: BLE001 - a training must not end by this
                self.trouble(f"tensor {name!r:.200} is not captured", error)

    def put(self, plan: Plan, captured: Captured) -> None:
        """Add a tensor that is reduced already to the step in hand."""
        if self.saving and (step := self._steps[-1]) is not None:
            try:
                check_name(plan.saved)
                step.add(plan, captured)
            except ValueError as error:
                self.trouble(f"tensor {plan.saved.name!r:.200} is not captured", error)

    def put_later(
        self, finish: Callable[[], Iterable[tuple[Plan, Captured]]], nbytes: int = 0
    ) -> None:
        """Add tensors whose reductions are still on their way from a device.

        ``finish`` is called once, in the background, before the step is written; ``nbytes`` is
        what it holds of the host's memory.
        """
        if self.saving and (step := self._steps[-1]) is not None:
            step.later.append(Later(finish, nbytes))

    def measured(self) -> AbstractContextManager[None]:
        """A context whose time counts as the hook's, in the training's thread."""
        return self._meter

    def spent(self, seconds: float) -> None:
        """Count time of the training that was found out later, such as a device's."""
        self._meter.add(seconds)

    def trouble(self, what: str, error: Exception) -> None:
        """Count something that could not be captured; the first is logged."""
        self._errors += 1
        if self._errors == 1:
            _log.warning("%s: %s", what, error)

    @property
    def generation(self) -> int:
        """Grows when a newer watch file has changed what is captured."""
        return self._session.generation if self._session is not None else 0

    @property
    def should_stop(self) -> bool:
        """Whether somebody asked for a stop: by ``STOP.json`` in the run, or by SIGTERM.

        Steady once it is true. SIGTERM counts after ``stop_on_sigterm()``.
        """
        asked = self._session is not None and self._session.stop_file.requested
        return asked or _was_received(self._sigterm)

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
        uploader = self._session.uploader if self._session is not None else None
        return Stats(
            uploader.written if uploader else 0,
            self._session.dropped if self._session else 0,
            uploader.lost if uploader else 0,
            self._errors,
            self._meter.seconds,
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
            self.end()
            self._closed = True
            self._steps.clear()
            marker = self._first if finished is None else finished
            stopped = _was_received(self._sigterm)
            marker = marker and not stopped and _OF_SAGEMAKER not in os.environ
            try:
                self._close(marker, timeout)
            except Exception as error:  # noqa: BLE001 - a training must not end by this
                _log.warning("the run was not closed: %s", error)

    def leave(self) -> None:
        """End the capture when the training is over but its script goes on, for example because
        the model was deleted.

        Writes what is waiting, and stops polling. The end marker is written when the interpreter
        exits cleanly, or before that by ``close``. Does not wait, and may be called in any thread
        while the garbage collector runs.
        """
        if self._left or self._closed or self._session is None or os.getpid() != self._pid:
            return
        self._left = True
        self._session.leave(self._leave)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        clean = error is None or (isinstance(error, SystemExit) and error.code in (None, 0))
        self.close(finished=None if clean else False)

    def _close(self, marker: bool, timeout: float) -> None:
        atexit.unregister(self._at_exit)
        if self._session and not self._session.close(marker=marker, timeout=timeout):
            _log.warning("the end of the run is missing: it could not be written in %g s", timeout)
        if self._left and self._session:
            runs_to_end.remove(self._session.place)
        if self._sigterm is not None:
            self._sigterm.close()
        _log.info("%s", self.stats)

    def _leave(self) -> None:
        """The part of ``leave`` that runs in the background. Nothing keeps the hook after it."""
        self.end()
        session = self._session
        if session is None or session.uploader is None or self._closed:
            return
        if self._first and session.used and _OF_SAGEMAKER not in os.environ:
            stopped = partial(_was_received, self._sigterm)
            runs_to_end.add(session.place, session.uploader, self._uncaught, stopped)
        atexit.unregister(self._at_exit)
        self._memory = Memory()

    def _at_exit(self) -> None:
        used = self._session is not None and self._session.used
        finished = None if used and ends_cleanly(self._uncaught) else False
        self.close(finished=finished, timeout=_AT_EXIT_SECONDS)

    def _begin(self, mode: Mode) -> None:
        """Count a step, and decide whether it is saved. Steps do not nest: an inner one is not."""
        step = None
        try:
            mode = Mode(mode)
            number, mode_step = self._position.advance(mode)
            self._uncaught = uncaught()  # what was raised before did not end the training
            over = self._closed or self._left or os.getpid() != self._pid
            if self._session and not (over or self._steps):
                begun = CapturedStep(number, mode, mode_step)
                with self._meter:
                    self._due = self._session.begin(begun)
                step = begun if self._due is not None else None
        except Exception as error:  # noqa: BLE001 - a training must not end by this
            self.trouble("a step is not captured", error)
        self._steps.append(step)

    def _end(self) -> None:
        step = self._steps.pop() if self._steps else None
        if step is None or step.empty or self._session is None or os.getpid() != self._pid:
            return
        try:
            spent = self._meter.seconds - self._metered
            self._metered = self._meter.seconds
            with self._meter:
                self._session.end(step, spent)
        except Exception as error:  # noqa: BLE001 - a training must not end by this
            self.trouble("a step is not captured", error)


def _was_received(sigterm: Sigterm | None) -> bool:
    return sigterm is not None and sigterm.received


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

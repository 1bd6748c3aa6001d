"""The hook for any training loop, which a training script calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from tocsin.model import Mode, Role
from tocsin.tensors import Captured, Storage

from tocsin_hooks.budget import OVERHEAD
from tocsin_hooks.capture import check_name, is_single
from tocsin_hooks.ending import finished_after
from tocsin_hooks.guard import Guard, Method, Troubles, guarded, log_error
from tocsin_hooks.life import Life
from tocsin_hooks.loop import CapturedLoop
from tocsin_hooks.meter import Meter
from tocsin_hooks.plan import CapturePlan
from tocsin_hooks.poller import News
from tocsin_hooks.position import Position, Resumed
from tocsin_hooks.step import Later
from tocsin_hooks.timings import Batch, TimedLoader, Timings

if TYPE_CHECKING:  # the rules are loaded by the first hook that is made, not by an import
    from tocsin.watch import Capture, Watch
    from typing_extensions import Self

    from tocsin_hooks.judge import Judge
    from tocsin_hooks.selection import Collections
    from tocsin_hooks.session import Session
    from tocsin_hooks.settings import Interval


def _guarded(
    what: str | Callable[..., str], otherwise: object = None
) -> Callable[[Method], Method]:
    return guarded(attrgetter("trouble"), what, otherwise)


def _of_name(hook: Hook, name: str, *_: object, **__: object) -> str:
    return f"tensor {name!r:.200} is not captured"


def _of_plan(hook: Hook, plan: CapturePlan, *_: object) -> str:
    return _of_name(hook, plan.saved.name)


@dataclass(frozen=True)
class Stats:
    """Counts of a hook.

    ``saved``, ``dropped``, ``lost``: steps; dropped because storage was slow, lost because it
    failed.
    ``errors``: tensors and steps that could not be captured.
    ``seconds``: time of the training that capturing took.
    """

    saved: int
    dropped: int
    lost: int
    errors: int
    seconds: float


class Hook:
    """Captures tensors of a training loop, and tells the loop when to stop.

    It never raises into the training and never makes it wait for storage. It skips tensors that it
    cannot capture, drops steps if storage is too slow, and switches itself off if it cannot work.
    It logs each of these once (logger ``tocsin``) and counts it in ``stats``. With ``TOCSIN=0`` or
    ``USE_SMDEBUG=0`` in the environment, and in a forked child, a hook does nothing.

    The end. ``close`` writes waiting steps and the end marker: the training is complete. Without
    ``close``, this happens when the interpreter exits. There is no marker inside SageMaker, whose
    job state shows the end; after SIGTERM, because a restart may follow; and after an uncaught
    exception, unless another step follows (notebooks). The hook cannot see ``sys.exit(1)`` or a
    caught exception: use ``with Hook(…)``, which notices both, or ``close(finished=False)``. In a
    process of ``multiprocessing``, only ``close`` writes the marker.

    The hook does not handle SIGTERM: by default Python exits at once, and the last saves may be
    missing. After ``stop_on_sigterm()``, SIGTERM sets ``should_stop`` instead.

    Parameters
    ----------
    out: the run: a folder, ``s3://bucket/prefix``, or a Storage. None: the path in SageMaker's
        ``debughookconfig.json``, else ``TOCSIN_RUN``.
    watch: a watch file, as a path or as a Watch. The hook captures what its rules read, and writes
        it to ``<run>/watch.json``. None: the ``watch.json`` that the run already has. An error in
        it is raised at once, as ValueError or OSError.
    save_interval: save every N steps of a mode, or N by mode; default: the watch file's, or 10.
    capture: what to capture; replaces the section ``capture`` of the watch file.
    include_workers: ``all``, or ``one``: only ``worker_0`` captures.
    max_overhead: the share of the training's time that capturing may take. If it takes more, the
        save interval grows. None: no limit. By default, the watch file's value, or 2 %.
    worker, num_workers: the name of this process, and the number of processes that write to the
        run. ``worker_0`` writes the end marker: let it wait for the others before ``close``.
    run_id: the id of this start of the job; all processes of a start may share it. Default: a new
        one.
    resumed_from: the ``position`` of the hook in the checkpoint that the training resumes from, or
        the last step in that checkpoint. The step count continues from there.
    poll_interval: seconds between two checks for a stop request and a newer watch file.
    usual_interval: the default of ``save_interval`` if the watch file has none, for loops with few
        steps.
    planned_steps: the number of steps that the training will have. After a stop, messages and the
        report state how many of them were not run.
    checkpoints: the folder in which the training saves checkpoints. The hook records each new file
        or folder there, as ``checkpoint`` does. Default: SageMaker's ``/opt/ml/checkpoints``.
    without_loss: the advice in the warning about a run without a loss, for callers that hide the
        hook from the script.
    judge: judge the run in a process beside the training, as ``tocsin check --follow`` does, and
        log the findings. ``"stop"``: when a rule with the action stop fires, the next step also
        raises TrainingStopped. A function: receives each status change, in a thread. None: the
        value of ``TOCSIN_JUDGE``, else no judge. With several workers, only the first one has a
        judge.

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
        usual_interval: int = 10,
        planned_steps: int | None = None,
        checkpoints: str | Path | None = None,
        without_loss: str | None = None,
        judge: Judge | None = None,
    ) -> None:
        self._troubles = Troubles()
        self._life = Life(
            worker == "worker_0" or num_workers == 1, self._last, lambda: self.stats, self.trouble
        )
        self._loop = CapturedLoop(self._life)
        self._called = False
        from tocsin_hooks.settings import given_watch

        asked = given_watch(watch)
        with Guard(log_error, "nothing is captured"):
            from tocsin_hooks.arguments import HookArguments
            from tocsin_hooks.container import destination, switched_off
            from tocsin_hooks.judge import asked as asked_judge
            from tocsin_hooks.session import Session

            position = Position(resumed_from)
            self._loop.position = position  # it counts, and goes into checkpoints, anyhow
            if switched_off():
                return
            run, configured = destination(out)
            session = Session(
                run,
                HookArguments(
                    asked,
                    save_interval,
                    capture,
                    configured,
                    include_workers,
                    max_overhead,
                    worker,
                    num_workers,
                    run_id,
                    position.resumed_from,
                    poll_interval,
                    usual_interval,
                    None if planned_steps is None else max(0, int(planned_steps)),
                    without_loss,
                    asked_judge(judge),
                    checkpoints,
                ),
                position.counters,
            )
            self._life.begin(session)

    @_guarded("a step is not captured", nullcontext())
    def step(self, mode: Mode = Mode.TRAIN) -> AbstractContextManager[None]:
        """Return a context for one step of ``mode``; the first step has number 0."""
        return _Step(self, mode)

    @_guarded("a step is not captured", False)
    def begin(self, mode: Mode = Mode.TRAIN, *, turn: int | None = None) -> bool:
        """Begin a step, for loops with callbacks. Return whether it is saved.

        A step that is still open ends. If several optimizers alternate, ``turn`` is the number of
        the step among the steps of its optimizer, so that the interval applies to each optimizer.
        """
        if self._called:
            self.end()
        self._called = True
        self._begin(mode, turn)
        return self.saving

    @_guarded("a step is not captured")
    def end(self) -> None:
        """End the step that ``begin`` began."""
        if self._called:
            self._called = False
            self._end()

    @_guarded("a step is not left out")
    def leave_out(self) -> None:
        """Discard the current step."""
        self._loop.leave_out()

    @property
    def saving(self) -> bool:
        """Return whether the current step is saved. Check it before computing values to save."""
        return self._loop.step is not None

    @_guarded(_of_name)
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
        """Save a tensor of the current step, as it is now; a second one of a name replaces it.

        Between two steps, the tensor is saved with the next step, or with the last one, whatever
        the interval. If a framework begins the steps, this also applies to a single number in a
        step that is not saved. A name that the script saves in every step follows the interval.

        Losses, metrics and single numbers keep their values. Other tensors are reduced to a summary
        unless ``raw``, the watch file or a rule requests their values. A rule gets values of at
        most 1 MiB, and none with ``raw=False``. Accepts numpy arrays, PyTorch tensors, objects with
        ``__array__``, numbers, strings and lists of them.

        ``collection`` is by default the one whose patterns in the watch file match the name, and
        ``role`` follows from it (losses, metrics, weights, biases, gradients, inputs, labels,
        predictions …). ``kind`` adds detail, for example the activation: relu, tanh, sigmoid.
        """
        plan = self.plan(name, collection, role=role, kind=kind, raw=raw, asked=True)
        if plan is not None:
            self.capture(plan, value)
        elif self._called or not self._loop.is_open:
            self.keep(name, value, collection, role=role, kind=kind, raw=raw)

    @_guarded(_of_name)
    def keep(
        self,
        name: str,
        value: object,
        collection: Collections = None,
        *,
        role: Role | None = None,
        kind: str | None = None,
        raw: bool | None = None,
        between: bool | None = None,
        urgent: bool | None = None,
    ) -> None:
        """Save a tensor with the next saved step, outside a saved step. See ``save``.

        ``between``: no step is open, if the hook cannot know this. ``urgent``: save the next step
        for this tensor; None: unless the script does this in each step.
        """
        between = not self._loop.is_open if between is None else between
        if between or urgent is not None or is_single(value):
            self._loop.keep(
                name, value, collection, role, kind, raw=raw, between=between, urgent=urgent
            )

    def record_loss(self, loss: object, name: str = "loss") -> object:
        """Save a loss of the current step, and return it."""
        self.save(name, loss, "losses", role=Role.LOSS)
        return loss

    @_guarded(_of_name, False)
    def wants(
        self,
        name: str,
        collection: Collections = None,
        *,
        role: Role | None = None,
        kind: str | None = None,
    ) -> bool:
        """Return whether a rule or the configuration needs such a tensor. True for losses."""
        if self._session is None:
            return False
        return self._session.selection.wants(name, collection, role, kind)

    @_guarded("a collection is not looked up", False)
    def configured(self, collection: str) -> bool:
        """Return whether the configuration names a collection, rules or not."""
        return self._session is not None and self._session.selection.settings.asked((collection,))

    @property
    @_guarded("the option guard is not read", False)
    def guards_updates(self) -> bool:
        """Return whether the watch file asks to skip updates that are not finite."""
        watch = None if self._session is None else self._session.selection.settings.watch
        return watch is not None and watch.guard

    @_guarded(_of_name)
    def plan(
        self,
        name: str,
        collection: Collections = None,
        *,
        role: Role | None = None,
        kind: str | None = None,
        raw: bool | None = None,
        asked: bool = False,
    ) -> CapturePlan | None:
        """Return how a tensor is captured in the current step.

        None: it is not captured, because the step or its collection is not due, or because no rule
        needs it and the script has not ``asked`` for it by name.
        """
        return self._loop.plan(name, collection, role, kind, raw=raw, asked=asked)

    @_guarded(_of_plan)
    def capture(self, plan: CapturePlan, value: object) -> None:
        """Reduce a value of the host as ``plan`` has it, and add it to the current step."""
        self._loop.capture(plan, value)

    @_guarded(_of_plan)
    def put(self, plan: CapturePlan, captured: Captured) -> None:
        """Add a tensor that is reduced already to the current step."""
        step = self._loop.step
        if step is not None:
            check_name(plan.saved)
            step.add(plan, captured)

    @_guarded("tensors of a device are not captured")
    def put_later(
        self, finish: Callable[[], Iterable[tuple[CapturePlan, Captured]]], nbytes: int = 0
    ) -> None:
        """Add tensors whose reductions are still being computed on a device.

        ``finish`` is called once, in the background, before the step is written; ``nbytes`` is its
        host memory.
        """
        step = self._loop.step
        if step is not None:
            step.later.append(Later(finish, nbytes))

    def measured(self) -> Meter:
        """Return a context whose time counts as the hook's, in the training's thread."""
        return self._loop.meter

    @_guarded("time that capturing took is not counted")
    def spent(self, seconds: float) -> None:
        """Count time of the training that is known only later, such as that of a device."""
        self._loop.meter.add(seconds)

    @property
    def allows_looks(self) -> bool:
        """Return whether the hook has time left to check a step that is not saved."""
        return self._session is not None and self._session.allows_looks(self._loop.meter.seconds)

    @_guarded("idle steps are not counted", (0, 0.0))
    def idle_steps(self, mode: Mode, turn: int | None = None) -> tuple[int, float]:
        """Return how many steps of this mode come that are sure not to be saved, and the time of
        the steady clock until which that holds. See ``begin`` for ``turn``."""
        return self._loop.idle_steps(mode, turn)

    @property
    def overhead(self) -> float | None:
        """Return the share of the training's time that capturing may take; None: no limit."""
        return None if self._session is None else self._session.overhead

    @property
    def counters(self) -> dict[Mode, int]:
        """Counters of the begun steps. Code that counts ``idle_steps`` calls ``skipped``."""
        return self._loop.position.counters

    @_guarded("idle steps are not counted")
    def skipped(self, mode: Mode, steps: int) -> None:
        """Count steps of ``counters`` that were neither begun nor ended."""
        self._loop.skipped(mode, steps)

    @property
    def news(self) -> News:
        """An event, set when the background may have changed the next step's capture."""
        return News() if self._session is None else self._session.news

    def trouble(self, what: str, error: Exception) -> None:
        """Count something that could not be captured; the first is logged."""
        self._troubles.add(what, error)

    @property
    def generation(self) -> int:
        """A number that increases when a newer watch file changes the capture."""
        return self._session.generation if self._session is not None else 0

    @property
    def saves_nothing(self) -> bool:
        """Return whether nothing of the current step has been saved yet."""
        step = self._loop.step
        return step is None or step.empty

    @property
    @_guarded("a stop request is not seen", False)
    def should_stop(self) -> bool:
        """Return whether a stop was requested, by ``STOP.json`` in the run or by SIGTERM.

        Stays true. SIGTERM counts after ``stop_on_sigterm()``.
        """
        asked = self._session is not None and self._session.stop_requested
        return asked or self._life.stopped

    @_guarded("SIGTERM does not stop the training")
    def stop_on_sigterm(self) -> None:
        """Make SIGTERM set ``should_stop``; a second SIGTERM ends the process.

        For scripts that check ``should_stop`` in their loop: they finish the step, save a
        checkpoint and close the hook. An existing handler is also called. Call this in the main
        thread; in other threads it only logs a warning.
        """
        self._life.stop_on_sigterm()

    @property
    @_guarded("the position is not known", {})
    def position(self) -> dict[str, int]:
        """Steps begun so far, by mode and altogether (GLOBAL): for a checkpoint, as JSON."""
        return self._loop.position.counts

    @_guarded("a checkpoint is not recorded")
    def checkpoint(self, path: str | Path) -> None:
        """Record that the training has just saved a checkpoint, of the steps so far.

        The next saved step names it. If a rule finds a fault, the verdict names the last checkpoint
        before it. Inside ``with hook.step(…)``, the checkpoint does not include that step.
        """
        if self._session is not None:
            within = self._loop.is_open and not self._called
            steps = self._loop.position.counters[Mode.GLOBAL] - int(within)
            self._session.note_checkpoint(steps - 1, str(path))

    @property
    def stats(self) -> Stats:
        uploader = self._session.uploader if self._session is not None else None
        return Stats(
            uploader.written if uploader else 0,
            self._session.dropped if self._session else 0,
            uploader.lost if uploader else 0,
            self._troubles.count,
            self._loop.meter.seconds,
        )

    @_guarded("waits for data are not timed")
    def _timed(self, loader: Iterable[Batch]) -> Iterable[Batch] | None:
        timings = self.timings
        return None if timings is None else TimedLoader(loader, timings)

    def data(self, loader: Iterable[Batch]) -> Iterable[Batch]:
        """Return the batches of a loader. Measures how long the training waits for each, if the
        watch file has a section ``machine``. Errors of the loader pass.

        >>> for batch in hook.data(loader):
        ...     train_on(batch)
        """
        timed = self._timed(loader)
        return loader if timed is None else timed

    @property
    @_guarded("steps are not timed")
    def timings(self) -> Timings | None:
        """Return where durations are collected; None if steps are not timed."""
        return self._loop.timings

    @_guarded("the run was not closed")
    def close(self, *, finished: bool | None = None, timeout: float = 60.0) -> None:
        """Write waiting steps and, if the training is ``finished``, the end marker.

        ``finished`` is by default true for the first worker. Waits at most ``timeout`` seconds.
        Later calls do nothing.
        """
        self._life.close(finished=finished, timeout=timeout)

    @_guarded("the run is not left")
    def leave(self) -> None:
        """End the capture when the training is over but its script continues, for example because
        the model was deleted.

        Writes waiting steps, and stops polling. The end marker is written when the interpreter
        exits cleanly, or before that by ``close``. Does not wait, and may be called in any thread
        while the garbage collector runs.
        """
        self._life.leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close(finished=finished_after(error))

    @property
    def _session(self) -> Session | None:
        """None: nothing is captured."""
        return self._life.session

    @_guarded("a step is not captured")
    def _begin(self, mode: Mode, turn: int | None = None) -> None:
        if self._session is not None:
            self._session.raise_if_stopped()
        self._loop.begin(mode, turn)

    @_guarded("a step is not captured")
    def _end(self) -> None:
        self._loop.end()

    @_guarded("the last step is not captured")
    def _last(self) -> None:
        """End the current step; there will be no other."""
        self.end()
        self._loop.close()


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

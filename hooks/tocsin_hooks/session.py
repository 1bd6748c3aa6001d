"""The work of a hook on one run: current capture, uploader and changes."""

from __future__ import annotations

import logging
import math
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from weakref import WeakValueDictionary

from tocsin.model import Mode
from tocsin.tensors import RunWriter, SavedCheckpoint, Storage, open_storage
from tocsin.watch import Watch, encode_watch

from tocsin_hooks.allowance import allowance_of
from tocsin_hooks.arguments import HookArguments
from tocsin_hooks.budget import ModeBudgets
from tocsin_hooks.checkpoints import MOST_PATH, CheckpointFolder, checkpoints_in
from tocsin_hooks.control import Control
from tocsin_hooks.coverage import LossCoverage, described, unmatched
from tocsin_hooks.earlier import warn_of_finished_run
from tocsin_hooks.ending import runs_to_end
from tocsin_hooks.guard import Guard, log_error
from tocsin_hooks.judge import Judge, RunJudge
from tocsin_hooks.log import say
from tocsin_hooks.machine import MachineOfHook
from tocsin_hooks.meter import Moment
from tocsin_hooks.poller import Look, News, Poller
from tocsin_hooks.rate import StepRate
from tocsin_hooks.recorder import StepRecorder
from tocsin_hooks.schedule import Due
from tocsin_hooks.selection import CaptureSelection
from tocsin_hooks.step import CapturedStep
from tocsin_hooks.stop import StopFile, TrainingStopped
from tocsin_hooks.uploader import Uploader

_log = logging.getLogger("tocsin")
_RETIRING = 10.0  # seconds


_open: WeakValueDictionary[tuple[str, str], Session] = WeakValueDictionary()
"""The present writer of a run, by its URL and worker: a notebook's cell may be run again."""


class Session:
    """Opens the run. Raises ValueError and OSError where that cannot work.

    One that writes to the same run as the same worker is ended by it. ``counters`` are those of the
    steps begun so far.
    """

    def __init__(
        self, out: str | Path | Storage, arguments: HookArguments, counters: Mapping[Mode, int]
    ) -> None:
        settings, first = arguments.settings(), arguments.first
        all_capture = arguments.all_capture(settings)
        num_workers = arguments.num_workers if all_capture else 1
        self._alone = num_workers == 1
        self.selection = CaptureSelection(settings, alone=self._alone)
        storage = open_storage(out) if isinstance(out, str | Path) else out
        run_id = arguments.run_id or uuid.uuid4().hex
        self._storage = storage
        self._url = storage.url
        self._first = first
        self.overhead = arguments.overhead(settings)
        self._budgets = ModeBudgets(self.overhead if first else None)
        self._allowance = allowance_of(storage.url)
        self._earlier = self._allowance.spent  # by hooks of this run that have ended
        self._begun = Moment.now()
        self._rate = StepRate(counters)
        self._due: Due | None = None
        self._stretch: Mapping[Mode, int] = {}
        self._every: int | None = None  # steps that the first of several workers says
        self.generation = 0
        self.dropped = 0
        self.uploader: Uploader | None = None
        self._losses = LossCoverage(arguments.without_loss)
        self._reported = False
        self._control: Control | None = None
        self._run_id = run_id
        self._resumed = arguments.resumed_from is not None
        self.place = (storage.url, arguments.worker)
        started = time.time()
        self.stop_file = StopFile(storage, run_id, started)
        self.machine = MachineOfHook(storage.url, run_id, started)
        self.recorder = StepRecorder(storage, arguments.worker, started)
        self._checkpoint: SavedCheckpoint | None = None
        looks: dict[str, Look] = {
            f"{storage.url}/STOP.json": self.stop_file.look,
            "STOP.json of the machine": self.machine.look,
        }
        if first:
            looks[f"{storage.url}/TRACE.json"] = self.recorder.look
        if first or all_capture:
            writer = RunWriter(
                storage,
                arguments.worker,
                run_id=run_id,
                resumed_from=arguments.resumed_from,
                started=started,
                planned_steps=arguments.planned_steps,
            )
            if first and (folder := checkpoints_in(arguments.checkpoints)) is not None:
                watched = CheckpointFolder(
                    folder, storage.url, started, counters, self.note_checkpoint
                )
                looks[f"checkpoints in {folder}"] = watched.look
            self.uploader = Uploader(storage, writer, settings, num_workers, self._before)
            self._control = Control(
                storage,
                None if settings.watch is None else encode_watch(settings.watch),
                first=first,
                alone=self._alone,
                interval=arguments.poll_interval,
                ready=self._has_begun,
                select=lambda watch: CaptureSelection(
                    arguments.settings_for(watch), alone=self._alone
                ),
                progress=self._rate.look,
                seconds=lambda: self.selection.settings.capture.save_interval_seconds,
                started=started,
            )
            looks[f"{storage.url}/watch.json"] = self._control.look
        self.news = News()
        self._poller = Poller(arguments.poll_interval, looks, self.news)
        self._retired = False
        self._judge = self._judged(arguments.judge) if first else None
        self.on_retire: Callable[[], object] = lambda: None  # so that its hook can be freed
        if (earlier := _open.get(self.place)) is not None:
            earlier.retire()
        if (left := runs_to_end.remove(self.place)) is not None:
            left.close(marker=False, timeout=_RETIRING)
        _open[self.place] = self
        self._follow_machine(settings.watch)

    def _judged(self, judge: Judge) -> RunJudge | None:
        """The judge of the run, if one is asked for and can open it."""
        if judge is False:
            return None
        if sys.version_info < (3, 11):
            _log.warning("the run is not judged: that needs Python 3.11 or newer")
            return None
        if "://" in self._url and not self._url.startswith("s3://"):
            _log.warning("the run is not judged: no other process can open %s", self._url)
            return None
        with Guard(log_error, "the run is not judged"):
            return RunJudge(self._url, judge, self._stopped)
        return None

    def _stopped(self) -> None:
        self.news.heard = True

    def raise_if_stopped(self) -> None:
        """Raises TrainingStopped after a rule has asked for a stop, with ``judge="stop"``."""
        if self._judge is not None and self._judge.stopped_by:
            raise TrainingStopped(f"{self._judge.stopped_by} stops the training of {self._url}")

    @property
    def stop_requested(self) -> bool:
        """Return whether a file of the run, or of its machine run, asks for a stop."""
        return self.stop_file.requested or self.machine.stop_requested

    def allows_looks(self, spent: float) -> bool:
        """Return whether a step that is not saved may be looked at. See ``ModeBudgets``."""
        elapsed = Moment.now().since(self._begun)
        return self._budgets.allows_looks(self._earlier + spent, elapsed)

    @property
    def used(self) -> bool:
        """Return whether any step was captured."""
        return self.uploader is not None and self.uploader.used

    @property
    def writes(self) -> bool:
        """Return whether this worker writes to the run at all."""
        return self.uploader is not None and not (self.uploader.broken or self._retired)

    @property
    def has_room(self) -> bool:
        """Return whether storage keeps up."""
        return self.uploader is not None and not self.uploader.full

    def note_checkpoint(self, step: int, path: str) -> None:
        """Name a checkpoint of the training, whose last step is ``step``, in the next saved steps.

        Raises ValueError for a path of more than 1,024 characters.
        """
        if not 0 < len(path) <= MOST_PATH:
            raise ValueError(f"a path of {len(path)} characters, but 1 to {MOST_PATH} are allowed")
        if step >= 0:
            self._checkpoint = SavedCheckpoint(step, path)

    def put(self, step: CapturedStep) -> None:
        """Write a step that was not due."""
        if self.uploader is not None and self.writes:
            self.uploader.put(replace(step, checkpoint=self._checkpoint))

    def begin(self, step: CapturedStep, turn: int | None = None) -> Due | None:
        """Return the part of a step that is captured, if any: it is due, and there is room for
        it."""
        now = time.monotonic()
        self._rate.begin(now)
        if self.uploader is None or not self.writes:
            return None
        self._change(self.uploader)
        schedule = self.selection.schedule
        self._due = due = schedule.due(
            step.mode,
            step.mode_step,
            step.step,
            now if self._alone else None,
            self._stretch.get(step.mode, 1),
            self._every,
            turn,
        )
        if due is not None and self.uploader.full:
            self.dropped += 1
            if self.dropped == 1:
                _log.warning("storage is too slow: step %d is dropped, maybe others", step.step)
            return None
        return due

    def idle_steps(self, mode: Mode, number: int, turn: int | None = None) -> tuple[int, float]:
        """Return how many steps of this mode from ``number`` on are sure not to be saved, and the
        time of the steady clock until which that holds."""
        uploader = self.uploader
        if uploader is None or uploader.broken or self._retired:
            return sys.maxsize, math.inf
        if self._judge is not None and self._judge.stopped_by:
            return 0, 0.0
        if self.recorder.is_asked or (self._control is not None and self._control.has_change):
            return 0, 0.0
        schedule, stretch = self.selection.schedule, self._stretch.get(mode, 1)
        steps = schedule.idle_steps(mode, number, stretch, self._every, turn)
        return steps, schedule.idle_until(mode, stretch) if self._alone else math.inf

    def end(self, step: CapturedStep, seconds: float, spent: float) -> None:
        """Hand a captured step over; it has cost ``seconds`` of the ``spent`` ones of the training
        that the hook took in all."""
        if self._due is not None:
            self.selection.schedule.saved(step.mode, self._due, time.monotonic())
        if self.uploader is not None and not (step.empty or self._retired):
            self.uploader.put(replace(step, checkpoint=self._checkpoint))
        self._allowance.spent = self._earlier + spent
        stretch = self._stretch.get(step.mode, 1)
        if self._control is not None and self._budgets.observe(
            step.mode, seconds, Moment.now(), self._allowance.spent, stretch, step.step
        ):
            self._control.stretch(self._budgets.stretches)

    def retire(self) -> None:
        """Write the steps so far and no more, because another hook writes the run now."""
        self._retired = True
        if self._judge is not None:
            self._judge.drop()
        self._poller.close()
        self.recorder.stop()
        self.machine.close(marker=False, timeout=_RETIRING)
        if self.uploader is not None and not self.uploader.close(marker=False, timeout=_RETIRING):
            _log.warning("an earlier hook of %s could not write all of its steps", self._url)
        self.on_retire()

    def leave(self, last: Callable[[], None]) -> None:
        """Stop polling, and write the rest in the background; see ``Uploader.leave``."""
        self._poller.close()
        self.recorder.stop()
        self.machine.leave()
        if self.uploader is not None:
            self.uploader.leave(last, self._losses.warn if self._first else lambda: None)

    def close(self, *, marker: bool, timeout: float) -> bool:
        """Return whether all was written; see ``Uploader.close``."""
        if self._retired:
            return True
        self._poller.close()
        begun = time.monotonic()
        self.recorder.stop()
        done = self.uploader is None or self.uploader.close(marker=marker, timeout=timeout)
        left = max(0.0, timeout - (time.monotonic() - begun))
        self.machine.close(marker=marker, timeout=left)
        self.recorder.wait(max(0.0, timeout - (time.monotonic() - begun)))
        if self._judge is not None:
            self._judge.end(max(1.0, timeout - (time.monotonic() - begun)))
        if self.uploader is None:
            return True
        if self._first:
            self._losses.warn()
        return done

    def _follow_machine(self, watch: Watch | None) -> None:
        with Guard(log_error, "the machine is not watched"):
            self.machine.follow(watch)

    def _change(self, uploader: Uploader) -> None:
        """Apply decisions of the background from this step on."""
        change = self._control.taken(self._rate.step) if self._control is not None else None
        if change is None:
            return
        self._every = change.every
        if change.selection is not None:
            self.selection = change.selection
            self.generation += 1
            uploader.configure(self.selection.settings)
            self._follow_machine(self.selection.settings.watch)
            say(f"a newer watch.json applies from step {self._rate.step} on")
        before, self._stretch = self._stretch, change.stretch
        for mode in Mode:
            stretch = self._stretch.get(mode, 1)
            if stretch == before.get(mode, 1):
                continue
            share = (
                f"capturing {mode.name} took {100 * self._budgets.share(mode):.1f} % of the time"
            )
            _log.warning(
                "%s: from step %d on, its save interval is %s",
                share if self._first else f"the first worker changes {mode.name}",
                self._rate.step,
                f"{stretch} times as long" if stretch > 1 else "as configured",
            )

    def _has_begun(self) -> bool:
        """Return whether our own watch file is in the run: what lies there before is an older
        one."""
        return self.uploader is not None and self.uploader.begun

    def _before(self, step: CapturedStep) -> None:
        """A step is about to be written, in the background."""
        if self._first:
            self._losses.add(step)
        if not self._reported:
            self._reported = True
            if self._first and not self._resumed:
                warn_of_finished_run(self._storage, self._run_id)
            self._report(step)

    def _report(self, step: CapturedStep) -> None:
        """Let the first worker say what is captured, and which rules have nothing to look at."""
        tensors = list(step.saved.values())
        if self._first:
            say(f"capturing to {self._url}: {described(tensors)}")
            _warn(unmatched(self.selection.settings, tensors))


def _warn(rules: Sequence[str]) -> None:
    for rule in rules:
        _log.warning("no tensor captured so far for rule %s", rule)

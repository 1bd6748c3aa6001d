"""One look at a run: look for what is new, load it, fold it, commit, publish, schedule."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from tocsin.evaluation.careful import Care, judge_step, switch_off
from tocsin.evaluation.configuration import Configuration, known_workers, load_rules
from tocsin.evaluation.ending import end_if_job_ended, fold_end_or_tick
from tocsin.evaluation.folding import OnVerdict, advance, ignore, skip
from tocsin.evaluation.loading import LoadedStep, load
from tocsin.evaluation.looking import NewFiles, find_end, find_files
from tocsin.evaluation.messages import Hint
from tocsin.evaluation.planning import HOLD_SECONDS, ReadyStep, StepPlan, plan
from tocsin.evaluation.ports import EvaluationPorts
from tocsin.evaluation.restarting import (
    files_before,
    find_restart,
    first_files,
    partly_judged_files,
)
from tocsin.evaluation.unit_of_work import EvaluationReport, UnitOfWork
from tocsin.tensors import (
    End,
    FetchedValue,
    NotFound,
    RefusedFile,
    Storage,
    ValueKey,
    parse_index_key,
)
from tocsin.watch import Selection, Watch

BATCH_FILES = 500
CAREFUL_ATTEMPTS = 2  # after so many that did not finish: one step per invocation
SKIP_ATTEMPTS = 4  # after so many, the last three at the same step: it is given up
MOST_WAITS = 3  # for missing workers; after so many steps in a row none waits for them
RECHECK_SECONDS = 300.0
OVERTIME = 4.0  # seconds after the deadline in which what is being read may end


@dataclass(frozen=True)
class Limits:
    """Limits of one look, and the callbacks for each step and verdict."""

    deadline: float
    attempts: int
    on_step: Callable[[int], None]
    on_verdict: OnVerdict
    care: Care

    @property
    def steps(self) -> int | None:
        return 1 if self.attempts > CAREFUL_ATTEMPTS else None

    @property
    def skips_first(self) -> bool:
        return self.attempts > SKIP_ATTEMPTS and not self.care.suspect

    def reached(self, steps: int, now: float) -> bool:
        return steps == self.steps or now >= self.deadline


@dataclass(frozen=True)
class Progress:
    """The position at which a look ended.

    due_at: when patrol should look again, None for never.
    wake_at: when to look again before that, where a hint for it is to be sent.
    out_of_time: whether steps are left that could be evaluated now.
    """

    due_at: float | None
    wake_at: float | None = None
    out_of_time: bool = False


def reconcile(
    hint: Hint,
    ports: EvaluationPorts,
    report: EvaluationReport,
    *,
    deadline: float,
    yields: float = math.inf,
    attempts: int = 1,
    care: Care | None = None,
    watch: Watch | None = None,
    on_step: Callable[[int], None] = lambda step: None,
    on_verdict: OnVerdict = ignore,
) -> Progress:
    """Evaluate all that is new in the run until ``deadline``, with ``watch`` or the run's own.

    After ``yields`` no further step begins; what takes long and cannot be divided goes on.
    ``care`` is needed where an earlier of the ``attempts`` may have died in a custom rule.

    Raises CheckpointConflict if somebody else committed meanwhile, and OutOfTime if what comes
    before a step took longer than until ``deadline``; then nothing of this look's uncommitted work
    has been published.
    """
    care = care or Care()
    limits = Limits(min(yields, deadline), attempts, on_step, on_verdict, care)
    until = max(deadline, ports.now()) + OVERTIME
    work = UnitOfWork.begin(hint.run, ports, report, until)
    if work.checkpoint.last_step is None and work.checkpoint.seen_at is None:
        work.replace(replace(work.checkpoint, seen_at=ports.now()))
    # Look. The end marker comes before the listing: then a run that has ended is listed whole.
    first = first_files(work) if hint.tick is not None else ()
    find_restart(work, (*hint.keys, *partly_judged_files(work.checkpoint), *first))
    end = find_end(work)
    most = limits.steps or BATCH_FILES
    awaited = None if care.suspect else _awaited(work, hint, end)
    skips = limits.skips_first
    new = find_files(work, hint, end, most, yields, awaited, skips=skips)
    if find_restart(work, files_before(work.checkpoint, new.files)):
        new = find_files(work, hint, end, most, yields, skips=skips)
    if hint.configures or not all(map(parse_index_key, hint.keys)):
        work.replace(replace(work.checkpoint, configured=work.checkpoint.configured + 1))
    if new.held_until is not None:
        return _wait(work, new.held_until)
    if not care.suspect and _is_duplicate(work, hint, new):
        return _next_look(work)
    again = hint.tick is not None or not hint.keys
    rules = load_rules(work, watch, again=again, new_start=_is_new_start(work, new))
    selection = Selection(rules.watched, rules.collections, work.checkpoint.problems)
    work.refuse_parts((*rules.problems, *selection.bad_patterns))
    work.replace(switch_off(work.checkpoint, rules.watched, care.suspect))
    while True:
        planned = _plan(work, new, rules)
        # Load, fold, commit and publish, step by step.
        steps, held_until = _evaluate(work, planned.ready, selection, limits, new.ended)
        work.refuse_parts((*rules.problems, *selection.bad_patterns))
        work.commit()
        left = new.more or steps < len(planned.ready)
        if left and held_until is None and limits.reached(steps, ports.now()):
            return Progress(ports.now(), out_of_time=True)
        if not new.more or held_until is not None:
            break
        most = most if planned.ready else 2 * most
        new = find_files(work, hint, end, most, yields)
    end_if_job_ended(work, rules, end)
    last = end if new.ended else None
    if not fold_end_or_tick(work, rules, hint.tick, last, deadline, care):
        work.commit()
        return Progress(ports.now(), out_of_time=True)
    # Schedule, commit and publish.
    return _wait(work, planned.wake_at if held_until is None else held_until)


def _awaited(work: UnitOfWork, hint: Hint, end: End | None) -> int | None:
    """Return how many workers a step waits for; None if it is not known, or does not matter now."""
    is_only_files = bool(hint.keys) and all(map(parse_index_key, hint.keys))
    if work.is_first_look or end is not None or hint.tick is not None or not is_only_files:
        return None
    workers = known_workers(work)
    return None if workers is None else max(1, workers - _given_up(work))


def _given_up(work: UnitOfWork) -> int:
    """Return how many missing workers a step no longer waits for."""
    return work.checkpoint.missing if work.checkpoint.waits >= MOST_WAITS else 0


def _wait(work: UnitOfWork, until: float | None) -> Progress:
    """Commit, with a wake-up if steps are held until a time."""
    wake_at = _schedule_wake(work, until)
    work.commit()
    work.commit()  # that the last changes are published
    return dataclasses.replace(_next_look(work), wake_at=wake_at)


def _is_duplicate(work: UnitOfWork, hint: Hint, new: NewFiles) -> bool:
    """Return whether nothing is new, so that there is nothing to read and nothing to write."""
    if work.is_first_look or new.ended != (work.checkpoint.ended == "marker"):
        return False
    ticks = hint.tick is not None and hint.tick > work.checkpoint.last_tick
    return not (new.files or new.more or ticks or work.is_uncommitted)


def _is_new_start(work: UnitOfWork, new: NewFiles) -> bool:
    """Return whether a start of the job is seen for the first time."""
    starts, files = work.checkpoint.run_ids, (found.file for found in new.files)
    other = any(starts.get(file.worker) not in (None, file.run_id) for file in files)
    return other or work.checkpoint.is_restarted


def _plan(work: UnitOfWork, new: NewFiles, rules: Configuration) -> StepPlan:
    return plan(
        new.files,
        frontier=work.checkpoint.frontier,
        num_workers=rules.collections.num_workers if rules.collections else None,
        now=work.ports.now(),
        ended=new.ended,
        refused=[at for key in work.checkpoint.refused if (at := parse_index_key(key))],
        given_up=_given_up(work),
    )


def _evaluate(
    work: UnitOfWork,
    steps: Sequence[ReadyStep],
    selection: Selection,
    limits: Limits,
    ended: bool,
) -> tuple[int, float | None]:
    """Load and fold steps until all are done, time is up, or one waits for its event file.

    Returns how many were done, and until when that one waits.
    """
    ports, done = work.ports, 0
    values: Mapping[ValueKey, FetchedValue] = {}
    for ready in steps:
        loaded = trial = None
        before = work.checkpoint
        if ready.files and not (limits.skips_first and done == 0):
            loaded = load(ready, selection, work.storage, before.references, ports.storage, values)
            values = loaded.values
            due = 0.0 if ended else _event_files_due(ready, loaded, work.storage)
            if ports.now() < due:
                return done, due
            if selection.reads_runs:
                files = [found.file for found in ready.files]
                trial = ports.trials.until(
                    ready.step, files, selection.collections, work.storage, before, ports.storage
                )
                loaded = loaded.with_trial(trial, selection)
            loaded = ports.baselines.beside(loaded, selection, work.storage.url, ports.storage)
        check_reads = (lambda: None) if trial is None else trial.raise_trouble
        if not _fold(work, ready, loaded, selection, limits, check_reads):
            break
        limits.on_step(ready.step)
        done += 1
        # An alert does not wait for the steps after it, nor progress for a step that may crash.
        if work.checkpoint.unpublished or limits.attempts > 1:
            work.commit()
        if limits.reached(done, ports.now()):
            break
    return done, None


def _event_files_due(ready: ReadyStep, loaded: LoadedStep, storage: Storage) -> float:
    """Until when to wait for event files that are not there yet; 0 if all are."""
    if not loaded.unreadable:
        return 0.0
    keys = {found.file.event_key: found.modified for found in ready.files}
    missing = [at for key, at in keys.items() if key and not _is_there(storage, key)]
    return max(missing) + HOLD_SECONDS if missing else 0.0


def _is_there(storage: Storage, key: str) -> bool:
    try:
        storage.head(key)
    except NotFound:
        return False
    except RefusedFile:  # waiting does not help: the file is there and cannot be used
        return True
    return True


def _fold(
    work: UnitOfWork,
    ready: ReadyStep,
    loaded: LoadedStep | None,
    selection: Selection,
    limits: Limits,
    check_reads: Callable[[], None],
) -> bool:
    """Fold one step; a lost one is only counted, one that was not loaded is given up.

    False if there was not time enough for all custom rules.
    """
    before, report = work.checkpoint, work.report
    watched, care = selection.watched, limits.care
    if loaded is not None:
        if not judge_step(work, ready, loaded, watched, care, check_reads, limits.on_verdict):
            return False
        report.steps += 1
        report.bytes_read += loaded.bytes_read
        report.lag = max(report.lag, work.ports.now() - ready.without_tensors.time)
        report.refused += len(loaded.unreadable)
        report.log += [f"{before.run}: unreadable: {what}" for what in loaded.unreadable]
    elif ready.files:
        reason = (
            f"step {ready.step} was skipped: {SKIP_ATTEMPTS} attempts to evaluate it did not finish"
        )
        left = before.not_judged(watched, ready.step)
        work.replace(skip(advance(before, ready), left, ready.without_tensors, reason))
    else:
        work.replace(advance(before, ready))
    report.missing_workers += ready.missing
    report.lost_steps += work.checkpoint.lost_steps - before.lost_steps
    return True


def _schedule_wake(work: UnitOfWork, wake_at: float | None) -> float | None:
    """Return the time for which to send a hint; None if an earlier one is on its way."""
    pending = work.checkpoint.wake_at
    if wake_at is None or (pending is not None and work.ports.now() < pending <= wake_at):
        return None
    work.replace(replace(work.checkpoint, wake_at=wake_at))
    return wake_at


def _next_look(work: UnitOfWork) -> Progress:
    """Patrol looks again at a run that has not ended."""
    now, checkpoint = work.ports.now(), work.checkpoint
    if checkpoint.ended:
        return Progress(None)
    due_at = now + RECHECK_SECONDS
    if checkpoint.wake_at is not None and checkpoint.wake_at > now:
        due_at = min(due_at, checkpoint.wake_at)  # its hint may be lost
    return Progress(due_at)

"""Steps folded into a run's checkpoint, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tocsin.evaluation._checkpoint import Checkpoint
from tocsin.evaluation._configuration import Configuration
from tocsin.evaluation._desk import Desk
from tocsin.evaluation._fetch import Got, Key
from tocsin.evaluation._fold import fold, reopen, skip
from tocsin.evaluation._frontier import HOLD_SECONDS, Ready
from tocsin.evaluation._loader import Loaded, load
from tocsin.evaluation._restart import superseding
from tocsin.evaluation._selection import Selection
from tocsin.evaluation._trials import with_trial
from tocsin.rules import Step
from tocsin.tensors import NotFound, RefusedFile, Storage, parse_index_key

CAREFUL_ATTEMPTS = 2  # after so many that did not finish: one step per invocation
SKIP_ATTEMPTS = 4  # after so many: that step is given up
_MOST_RESTARTS = 20  # remembered


@dataclass(frozen=True)
class Limits:
    """How far one look may go, and whom it tells of each step."""

    deadline: float
    attempts: int
    on_step: Callable[[int], None]

    @property
    def steps(self) -> int | None:
        return 1 if self.attempts > CAREFUL_ATTEMPTS else None

    @property
    def skips_first(self) -> bool:
        return self.attempts > SKIP_ATTEMPTS


def work_off(
    desk: Desk,
    steps: Sequence[Ready],
    selection: Selection,
    rules: Configuration,
    limits: Limits,
    ended: bool,
) -> tuple[int, float | None]:
    """Fold steps in until all are, or time is up, or one waits for its event file: how many were,
    and until when that one waits.
    """
    done = 0
    values: Mapping[Key, Got] = {}
    for ready in steps:
        loaded = trial = None
        if ready.files and not (limits.skips_first and done == 0):
            loaded = load(
                ready,
                selection,
                desk.storage,
                desk.checkpoint.references,
                desk.world.storage,
                values,
            )
            values = loaded.values
            due = 0.0 if ended else _event_files_due(desk, ready, loaded)
            if desk.world.now() < due:
                return done, due
            trial = desk.world.trials.until(
                ready, selection, desk.storage, desk.checkpoint, desk.world.storage
            )
            loaded = replace(loaded, steps=with_trial(loaded.steps, trial, selection))
        _evaluate(desk, ready, loaded, rules)
        if trial is not None:
            trial.raise_trouble()
        limits.on_step(ready.step)
        done += 1
        # An alert does not wait for the steps behind it, nor progress for a step that may crash.
        if desk.checkpoint.unpublished or limits.attempts > 1:
            desk.commit()
        if done == limits.steps or desk.world.now() >= limits.deadline:
            break
    return done, None


def _event_files_due(desk: Desk, ready: Ready, loaded: Loaded) -> float:
    """Until when to wait for event files that are not there yet; 0 if all are."""
    if not loaded.unreadable:
        return 0.0
    keys = {seen.file.event_key: seen.modified for seen in ready.files}
    missing = [at for key, at in keys.items() if key and not _is_there(desk.storage, key)]
    return max(missing) + HOLD_SECONDS if missing else 0.0


def _evaluate(desk: Desk, ready: Ready, loaded: Loaded | None, rules: Configuration) -> None:
    """Fold one step in; a lost one is only counted, one that was not loaded is given up."""
    before = desk.checkpoint
    after = replace(
        before,
        frontier=ready.step,
        missing_workers=before.missing_workers + ready.missing,
        refused={
            key: why for key, why in before.refused.items() if not _at_or_before(key, ready.step)
        },
    )
    desk.report.missing_workers += ready.missing
    if not ready.files:
        lost = len(after.refused) == len(before.refused)  # or was there, but refused
        desk.report.lost_steps += lost
        desk.checkpoint = replace(after, lost_steps=before.lost_steps + lost)
        return
    first = ready.files[0].file
    time = max(seen.modified for seen in ready.files)
    if before.ended:
        after = reopen(after)
    desk.checkpoint = replace(
        after,
        **_starts(before, ready),
        steps=before.steps + 1,
        first_step=ready.step if before.first_step is None else before.first_step,
        first_time=time if before.first_time is None else before.first_time,
        last_step=ready.step,
        last_mode=first.mode,
        last_mode_step=first.mode_step,
        last_time=max(time, before.last_time),
        files=before.files + len(ready.files),
        workers=tuple(sorted({*before.workers, *(seen.file.worker for seen in ready.files)})),
    )
    if loaded is None:
        bare = Step(ready.step, first.mode, first.mode_step, time)
        reason = f"step {ready.step} was given up: {SKIP_ATTEMPTS} attempts at it did not finish"
        desk.checkpoint = skip(desk.checkpoint, rules.watched, bare, reason)
        return
    desk.checkpoint = replace(
        fold(desk.checkpoint, rules.watched, loaded.steps),
        references=loaded.references,
        unreadable=before.unreadable + len(loaded.unreadable),
    )
    desk.report.refused += len(loaded.unreadable)
    desk.report.steps += 1
    desk.report.bytes_read += loaded.bytes_read
    desk.report.lag = max(desk.report.lag, desk.world.now() - time)
    desk.report.log += [f"{before.run}: unreadable: {what}" for what in loaded.unreadable]


def _starts(before: Checkpoint, ready: Ready) -> dict[str, Any]:
    """Each worker's start of the job as of this step, and the steps at which one changed."""
    starts = {s.file.worker: s.file.meta.run_id for s in ready.files if s.file.meta is not None}
    over = [
        before.run_ids[w] for w, start in starts.items() if before.run_ids.get(w, start) != start
    ]
    restarts = (*before.restarts, ready.step)[-_MOST_RESTARTS:] if over else before.restarts
    return {
        "run_ids": {**before.run_ids, **starts},
        "restarts": restarts,
        "superseded": superseding(before, over),
    }


def _at_or_before(key: str, step: int) -> bool:
    place = parse_index_key(key)
    return place is not None and place[0] <= step


def _is_there(storage: Storage, key: str) -> bool:
    try:
        storage.head(key)
    except NotFound:
        return False
    except RefusedFile:  # nothing to wait for: what is there says why it cannot be read
        return True
    return True

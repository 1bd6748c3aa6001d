"""Trains runs, each with the hook attached, by several processes."""

from __future__ import annotations

import logging
import math
import os
import shutil
import sys
import traceback
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from benchmarks.detection import catalogue
from benchmarks.detection.mechanisms import switched_off
from benchmarks.detection.progress import work
from benchmarks.detection.run_hook import RunHook
from benchmarks.detection.runs import ENDING, Ending, Run, in_turns


@dataclass(frozen=True)
class TrainingTask:
    """A run that is to be made. ``save_interval`` None is the hook's default."""

    run: Run
    save_interval: int | None


def make(
    runs: Iterable[Run],
    jobs: int = 2,
    save_interval: int | None = None,
    until: float = math.inf,
) -> None:
    """Train those that are not there yet, or by other code, by ``jobs`` processes.

    Takes the groups in turns, and begins none after the time ``until``: what is made by then is
    of all groups alike.
    """
    known = {case.folder: case for case in catalogue.every()}
    todo = [
        TrainingTask(run, save_interval)
        for run in in_turns(runs, known)
        if not run.is_made or not _is_as_now(run)
    ]
    for _ in work("training", make_one, todo, jobs, until):
        pass


def _is_as_now(run: Run) -> bool:
    """Return whether the present code trained it, with the mechanisms that are on."""
    ending = run.ending
    return (ending.code, ending.without) == (catalogue.find(run.case).digest, switched_off())


def make_one(training: TrainingTask) -> None:
    """Train, and keep beside the run how it ended. One that raises is over, as for a user."""
    run = training.run
    shutil.rmtree(run.folder, ignore_errors=True)
    run.folder.mkdir(parents=True)
    logging.getLogger("tocsin").addHandler(logging.NullHandler())  # it would cut the progress bar
    hook = RunHook(run.tensors, training.save_interval)
    started, error, skill = _seconds(), "", math.nan
    case, environment = catalogue.find(run.case), dict(os.environ)
    code = case.digest  # of what is loaded: the files may change while it is trained
    try:
        skill = case.train(run.seed, hook)
    except Exception as raised:  # noqa: BLE001 - a fault may end a training
        error = f"{type(raised).__name__}: {raised}"
        print(f"{run.case} {run.seed}: {traceback.format_exc(limit=-2)}", file=sys.stderr)
    finally:  # the next training is none of several workers
        os.environ.clear()
        os.environ.update(environment)
    hook.close()
    seconds = round(_seconds() - started, 3)
    kept = skill if math.isfinite(skill) else None
    ending = Ending(kept, seconds, code, error, switched_off())
    (run.folder / ENDING).write_bytes(msgspec.json.encode(ending))


def _seconds() -> float:
    """Processor time, of children as well."""
    return sum(os.times()[:4])

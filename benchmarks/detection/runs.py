"""The runs on disk: each is trained once with the hook, and can be judged again at any time."""

from __future__ import annotations

import logging
import math
import os
import shutil
import sys
import traceback
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from benchmarks.detection import families
from benchmarks.detection.case import Case
from benchmarks.detection.mechanisms import switched_off
from benchmarks.detection.progress import work
from benchmarks.detection.run_hook import RunHook

_ENDING = "ending.json"


@dataclass(frozen=True)
class Ending:
    """How a training ended, and the ``seconds`` of processor time that it took. ``skill`` is None
    where it is not finite; ``error`` is what ended it, if anything did; ``code`` is a digest of
    what trained it; ``without`` names the mechanism of the hook that was switched off."""

    skill: float | None
    seconds: float
    code: str
    error: str = ""
    without: str = ""


@dataclass(frozen=True)
class Run:
    """A case with a seed, and its folder, in which the folder ``run`` is what the hook wrote."""

    case: str
    seed: int
    folder: Path

    @property
    def tensors(self) -> Path:
        return self.folder / "run"

    @property
    def is_made(self) -> bool:
        return (self.folder / _ENDING).is_file()

    @property
    def ending(self) -> Ending:
        return msgspec.json.decode((self.folder / _ENDING).read_bytes(), type=Ending)


@dataclass(frozen=True)
class TrainingTask:
    """A run that is to be made. ``save_interval`` None is the hook's default."""

    run: Run
    save_interval: int | None


def runs_of(cases: Iterable[Case], folder: Path, seeds: int | None = None) -> list[Run]:
    """The runs of these cases in a folder, with so many ``seeds`` of each, or as many as it has."""
    return [
        Run(case.folder, seed, folder / case.folder / str(seed))
        for case in cases
        for seed in range(seeds or case.seeds)
    ]


def make(
    runs: Iterable[Run],
    jobs: int = 2,
    save_interval: int | None = None,
    until: float = math.inf,
) -> None:
    """Train those that are not there yet, or by other code, by ``jobs`` processes.

    Takes the families in turns, and begins none after the time ``until``: what is made by then is
    of all families alike.
    """
    known = {case.folder: case for half in families.HALVES for case in families.cases(half)}
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
    code = families.digest(families.find(run.case))
    return (ending.code, ending.without) == (code, switched_off())


def in_turns(runs: Iterable[Run], cases: Mapping[str, Case]) -> list[Run]:
    """The runs in such an order that each family's references come first, then one of each.

    Healthy and faulty cases alternate within a family.
    """
    ranked: list[tuple[int, int, Run]] = []
    counts: Counter[tuple[str, bool]] = Counter()
    for at, run in enumerate(sorted(runs, key=lambda run: run.seed)):
        case = cases[run.case]
        turn = 0
        if not (case.healthy and case.name == case.reference):
            counts[case.family, case.healthy] += 1
            turn = counts[case.family, case.healthy]
        ranked.append((turn, at, run))
    return [run for *_, run in sorted(ranked, key=lambda each: each[:2])]


def make_one(training: TrainingTask) -> None:
    """Train, and keep beside the run how it ended. One that raises is over, as for a user."""
    run = training.run
    shutil.rmtree(run.folder, ignore_errors=True)
    run.folder.mkdir(parents=True)
    logging.getLogger("tocsin").addHandler(logging.NullHandler())  # it would cut the progress bar
    hook = RunHook(run.tensors, training.save_interval)
    started, error, skill = _seconds(), "", math.nan
    case, environment = families.find(run.case), dict(os.environ)
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
    ending = Ending(kept, seconds, families.digest(case), error, switched_off())
    (run.folder / _ENDING).write_bytes(msgspec.json.encode(ending))


def _seconds() -> float:
    """Processor time, of children as well."""
    return sum(os.times()[:4])

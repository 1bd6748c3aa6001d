"""The runs on disk: each is trained once with the hook, and can be judged again at any time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from benchmarks.detection.case import Case

ENDING = "ending.json"


@dataclass(frozen=True)
class Ending:
    """The end of a training, and the ``seconds`` of processor time that it took. ``skill`` is None
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
        return (self.folder / ENDING).is_file()

    @property
    def ending(self) -> Ending:
        return msgspec.json.decode((self.folder / ENDING).read_bytes(), type=Ending)


def runs_of(cases: Iterable[Case], folder: Path, seeds: int = 1) -> list[Run]:
    """The runs of these cases in a folder, with so many ``seeds`` of each."""
    return [
        Run(case.folder, seed, folder / case.folder / str(seed))
        for case in cases
        for seed in range(seeds)
    ]


def in_turns(runs: Iterable[Run], cases: Mapping[str, Case]) -> list[Run]:
    """The runs in such an order that each group's references come first, then one of each.

    Healthy and faulty cases alternate within a group.
    """
    ranked: list[tuple[int, int, Run]] = []
    counts: Counter[tuple[str, bool]] = Counter()
    for at, run in enumerate(sorted(runs, key=lambda run: run.seed)):
        case = cases[run.case]
        turn = 0
        if not case.is_reference:
            counts[case.group, case.healthy] += 1
            turn = counts[case.group, case.healthy]
        ranked.append((turn, at, run))
    return [run for *_, run in sorted(ranked, key=lambda each: each[:2])]

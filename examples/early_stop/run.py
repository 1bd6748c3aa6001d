"""Random searches for hyperparameters, in which rules stop trials that come to nothing.

Each search runs twice with the same trials: at first to the end, then with ``judge="stop"``.
"""

from __future__ import annotations

import multiprocessing
import resource
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, chain
from pathlib import Path

import numpy as np
import torch

from examples.early_stop.train import Settings, drawn, train
from examples.shown import Shown, chart

AT_ONCE = 2  # trials
EPOCH_SECONDS = 0.2  # that an epoch lasts at least where rules stop trials: the judge has a part


@dataclass(frozen=True)
class Outcome:
    """The cost of a trial, and its result.

    accuracy: the best on the held-out digits until its end.
    rule: the one that stopped it; empty if none did.
    seconds, judge_seconds: of CPU time, of the training's process and of its judge.
    """

    epochs: int
    accuracy: float
    rule: str
    seconds: float
    judge_seconds: float


def trial(
    number: int, settings: Settings, *, out: Path, seed: int, epochs: int, stops: bool
) -> Outcome:
    """Run one trial in a process of its own search."""
    torch.set_num_threads(1)
    before = _spent()
    accuracies, rule = train(
        out / str(number),
        settings,
        seed=seed + number,
        epochs=epochs,
        seconds=EPOCH_SECONDS if stops else 0.0,
        stops=stops,
    )
    seconds, judge = (after - start for after, start in zip(_spent(), before, strict=True))
    return Outcome(len(accuracies), max(accuracies, default=0.0), rule, seconds, judge)


def _spent() -> tuple[float, float]:
    """Return the seconds of CPU time of this process and of its children that have ended."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    own, children = (usage.ru_utime + usage.ru_stime for usage in usages)
    return own, children


def search(out: Path, seed: int, *, trials: int, epochs: int, stops: bool) -> list[Outcome]:
    """Run trials that are drawn at random: a search with the same seed draws the same ones."""
    random = np.random.default_rng(seed)
    settings = [drawn(random) for _ in range(trials)]
    run = partial(trial, out=out, seed=1000 * seed, epochs=epochs, stops=stops)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(AT_ONCE, trials), spawn) as pool:
        return list(pool.map(run, range(trials), settings))


def searched(out: Path, *, seeds: Sequence[int], trials: int, epochs: int) -> Shown:
    """Run each search without and with rules, and compare them."""
    whole, ruled = (
        [
            search(out / f"{kind}-{seed}", seed, trials=trials, epochs=epochs, stops=stops)
            for seed in seeds
        ]
        for kind, stops in (("whole", False), ("stopped", True))
    )
    every, stopped = ([*chain.from_iterable(searches)] for searches in (whole, ruled))
    rules = Counter(each.rule for each in stopped if each.rule)
    without, within = (sum(each.epochs for each in trials) for trials in (every, stopped))
    seconds, less = (sum(each.seconds for each in trials) for trials in (every, stopped))
    judges = sum(each.judge_seconds for each in stopped)
    figures = {
        "searches, and trials of each": f"{len(seeds)}, {trials}",
        "epochs": f"{without:,}, with rules {within:,} (-{1 - within / without:.0%})",
        "seconds of CPU time": f"{seconds:,.0f}, with rules {less:,.0f} and {judges:,.0f} to judge",
        "best accuracy of each search": _listed(map(best, whole)),
        "the same with rules": _listed(map(best, ruled)),
        "stopped by": ", ".join(f"{rule} {n}" for rule, n in rules.most_common()) or "none",
    }
    lines = {"without rules": progress(whole[0]), "with rules": progress(ruled[0])}
    title = "Best accuracy by epochs of the first search"
    return Shown(figures, chart(title, "epochs of all trials", lines))


def best(outcomes: Sequence[Outcome]) -> float:
    return max(each.accuracy for each in outcomes)


def _listed(shares: Iterable[float]) -> str:
    return ", ".join(f"{share:.1%}" for share in shares)


def progress(outcomes: Sequence[Outcome]) -> list[tuple[float, float]]:
    """The best accuracy so far after each trial, by the epochs of all trials so far."""
    epochs = accumulate(each.epochs for each in outcomes)
    best = accumulate((each.accuracy for each in outcomes), max)
    return [(0.0, 0.0), *zip(map(float, epochs), best, strict=True)]


def run(out: Path, *, small: bool = False) -> Shown:
    """Three searches of sixteen trials; the small form has one trial, which learns nothing."""
    if small:
        return searched(out, seeds=[1], trials=1, epochs=40)
    return searched(out, seeds=[1, 2, 3], trials=16, epochs=80)

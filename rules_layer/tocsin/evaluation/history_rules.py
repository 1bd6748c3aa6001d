"""The rules that watch a history of another tool: those of its profile, fitted to its columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Set
from typing import Any

from tocsin.histories import GPU, STEP, WAIT, Columns
from tocsin.rules import RECOMMENDED, TRAINING, rule_names
from tocsin.watch import RuleConfig, Watch, encode_watch

_MOST_NAMES = 100  # of columns that a rule reads by name

# A save of a history of epochs is the mean of many steps: fewer of them show a trend.
_OF_EPOCHS: Mapping[str, Mapping[str, Any]] = {
    "LossNotDecreasing": {"num_steps": 3, "smooth": 4},
    "LossDiverging": {"window": 4},
}

_STALLED = "StalledTrainingRule"  # a history that was read to its end shows pauses that are over
_FROM_START = "Underfitting"  # it compares with the first loss of the training

# What each rule about the machine needs. A row is one step, where a minute is the median of many.
_ABOUT_MACHINE: tuple[tuple[str, Set[str], Mapping[str, Any]], ...] = (
    ("SlowerThanBefore", {STEP}, {"ratio": 0.5}),
    ("InputBottleneck", {STEP, WAIT}, {}),
    ("LowGPUUtilization", {GPU}, {}),
)


def watch_of_history(columns: Columns) -> bytes:
    """Return the content of ``watch.json`` for a history with these columns.

    A loss that is not finite counts, and no other column's: a score may not be known yet. Scores
    that get worse are losses the other way round.
    """
    fitted: dict[str, Mapping[str, Any]] = dict(_OF_EPOCHS) if columns.coarse else {}
    fitted["ExplodingTensor"] = {"tensor_regex": _named(columns.finite)}
    left_out = {_STALLED} if columns.finished else set()
    left_out |= {_FROM_START} if columns.continues else set()
    names = (name for name in _recommended() if name not in left_out)
    rules = [RuleConfig(name, None, fitted.get(name, {})) for name in names]
    rules += [
        RuleConfig(name, None, parameters)
        for name, kinds, parameters in _ABOUT_MACHINE
        if columns.measured >= kinds
    ]
    if columns.scores:
        scores = {"tensor_regex": _named(columns.scores), "direction": "rises"}
        lost = {**scores, "factor": 1.5, "window": 4 if columns.coarse else 8}
        rules += [
            RuleConfig("LossWorse", "ScoreWorse", scores),
            RuleConfig("LossDiverging", "ScoreLost", lost),
        ]
    return encode_watch(Watch(rules=tuple(rules)))


def _recommended() -> tuple[str, ...]:
    return rule_names(RECOMMENDED, TRAINING)


def _named(names: Iterable[str]) -> list[str]:
    return [f"^{re.escape(name)}$" for name in [*names][:_MOST_NAMES]]

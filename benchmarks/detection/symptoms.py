"""Whether a fault shows: a training that ends as well as its sound twin has no symptom."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable

from benchmarks.detection.runs import Run
from benchmarks.detection.split import twin
from benchmarks.detection.training.outcome import Outcome
from benchmarks.detection.training.setup import Setup

LEAST = 0.03
"""Of recall or explained variance: less is nobody's trouble."""

SPREADS = 3.0
"""Standard deviations among the seeds of the sound training."""


class Symptoms:
    """The sound trainings of a half, to compare faulty ones with."""

    def __init__(self, sound: Iterable[Run]) -> None:
        self._twins: dict[Setup, Outcome] = {}
        metrics = defaultdict[tuple[str, str], list[float]](list)
        for run in sound:
            outcome = self._twins[run.setup] = run.outcome
            if run.setup.recipe == "plain" and outcome.metric is not None:
                metrics[run.setup.family, run.setup.data].append(outcome.metric)
        self._spread = {pair: statistics.stdev(found) for pair, found in metrics.items()}

    def loss_of(self, run: Run) -> float:
        """By how much the run's metric is below its twin's; infinite if it is not finite."""
        own, other = run.outcome.metric, self._twins[twin(run.setup)].metric
        if own is None or run.outcome.loss is None:
            return float("inf")
        assert other is not None, run.setup
        return other - own

    def shows(self, run: Run) -> bool:
        """Whether the training ended worse than chance explains."""
        spread = self._spread[run.setup.family, run.setup.data]
        return self.loss_of(run) > max(LEAST, SPREADS * spread)

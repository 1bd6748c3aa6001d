"""The runs that rules read as a whole, kept from one look to the next."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache

from tocsin.evaluation._checkpoint import Checkpoint
from tocsin.evaluation._frontier import Ready
from tocsin.evaluation._others import beside
from tocsin.evaluation._selection import Selection
from tocsin.rules import Step
from tocsin.tensors import Storage
from tocsin.trial import PastTrial, Trial, glance

_MOST_RUNS = 3  # in memory, with what was read of them


@dataclass
class Trials:
    """A trial for each run that was looked at lately, which knows it as far as its frontier; with
    the starts of the job that were over then.
    """

    _of: OrderedDict[str, tuple[PastTrial, tuple[str, ...]]] = field(default_factory=OrderedDict)

    def until(
        self,
        ready: Ready,
        selection: Selection,
        storage: Storage,
        before: Checkpoint,
        open_run: Callable[[str], Storage],
    ) -> PastTrial | None:
        """The run up to a step that has files; None if no rule asks for it.

        What was evaluated up to ``before`` is read only where this process has not seen it.
        """
        if not any(rule.reads.trial for rule in selection.watched):
            return None
        trial, over = self._of.pop(storage.url, (None, ()))
        # Begun anew, maybe by another process: then earlier steps are others than were seen here.
        anew = over != before.superseded
        if trial is None or anew or trial.last_step > before.frontier:
            trial = PastTrial(storage, _opener(storage.url, open_run))
        if trial.last_step < before.frontier:
            trial.catch_up(before.frontier)
        trial.show(ready.step, (seen.file for seen in ready.files), selection.collections)
        self._of[storage.url] = trial, before.superseded
        if len(self._of) > _MOST_RUNS:
            self._of.popitem(last=False)
        return trial


def _opener(url: str, open_run: Callable[[str], Storage]) -> Callable[[str], Trial]:
    """Opens each other run once, by the name that a rule's configuration gives it."""
    return cache(lambda run: glance(open_run(beside(url, run))))


def with_trial(
    steps: Mapping[str, Step], trial: PastTrial | None, selection: Selection
) -> Mapping[str, Step]:
    """The steps, with the run for those rules that read it as a whole."""
    if trial is None:
        return steps
    asking = {rule.name for rule in selection.watched if rule.reads.trial}
    return {
        name: replace(step, trial=trial) if name in asking else step for name, step in steps.items()
    }

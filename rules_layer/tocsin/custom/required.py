"""The tensors that a rule needs at a step, as rules written for smdebug name them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from tocsin.trial.exceptions import TensorUnavailable
from tocsin.trial.tensor import TrialTensor
from tocsin.trial.trial import Trial


class RequiredTensors:
    """By trial, the tensors and the global steps at which they are needed."""

    def __init__(self, base_trial: Trial, other_trials: Sequence[Trial] | None = None) -> None:
        self.base_trial = base_trial
        trials = [base_trial, *(other_trials or ())]
        self._of = {id(trial): RequiredTensorsForTrial(trial) for trial in trials}

    def add(
        self,
        name: str,
        steps: Iterable[int],
        trial: Trial | None = None,
        should_match_regex: bool = False,
    ) -> None:
        """Need a tensor, or all that match a pattern. Raises TensorUnavailable."""
        self._for(trial).add(name, steps, should_match_regex=should_match_regex)

    add_tensor = add

    def get(self, trial: Trial | None = None) -> Collection[TrialTensor]:
        return self._for(trial).get()

    def get_names(self, trial: Trial | None = None) -> Collection[str]:
        return self._for(trial).get_names()

    def get_tensor_steps(self, name: str, trial: Trial | None = None) -> list[int]:
        return self._for(trial).get_tensor_steps(name)

    def clear(self) -> None:
        for required in self._of.values():
            required.clear()

    def fetch(self) -> None:
        """Wait for all of them. Raises what ``wait_for_steps`` and ``Tensor.value`` raise."""
        for required in self._of.values():
            required.fetch()

    def _for(self, trial: Any) -> RequiredTensorsForTrial:
        return self._of[id(self.base_trial if trial is None else trial)]


class RequiredTensorsForTrial:
    """The tensors of one trial."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self._steps: dict[str, list[int]] = {}

    def add(self, name: str, steps: Iterable[int], should_match_regex: bool = False) -> None:
        wanted = list(steps)
        names = self.trial.tensor_names(regex=name) if should_match_regex else [name]
        for each in names:
            if not self.trial.has_tensor(each):
                raise TensorUnavailable(each)
            self._steps.setdefault(each, []).extend(wanted)

    def get(self) -> Collection[TrialTensor]:
        return [self.trial.tensor(name) for name in self._steps]

    def get_names(self) -> Collection[str]:
        return self._steps.keys()

    def get_tensor_steps(self, name: str) -> list[int]:
        return self._steps[name]

    def clear(self) -> None:
        self._steps.clear()

    def fetch(self) -> None:
        self.trial.wait_for_steps(
            sorted({step for steps in self._steps.values() for step in steps})
        )
        for name, steps in self._steps.items():
            tensor = self.trial.tensor(name)
            for step in steps:
                tensor.check_value(step)

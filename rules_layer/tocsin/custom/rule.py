"""The base class of custom rules, in either style."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Sequence
from typing import Any

from tocsin.custom.required import RequiredTensors
from tocsin.model import Verdict
from tocsin.rules import Reads, State, Step
from tocsin.rules import Rule as NativeRule
from tocsin.trial.exceptions import RuleEvaluationConditionMet
from tocsin.trial.refreshing import no_refresh
from tocsin.trial.trial import Trial


class Rule(NativeRule):
    """A rule of your own: a frozen dataclass with ``reads`` and ``evaluate`` (see
    ``tocsin.rules.Rule``), or a class with ``invoke_at_step``, as it is written for smdebug.

    The second kind gets the trial that it judges in its constructor, returns True if its condition
    is met, and keeps its state in its attributes: plain data and numpy arrays.
    The watch file names the actions of a rule; ``action_str`` is ignored.

    Example:
        >>> class LossTooHigh(Rule):
        ...     def __init__(self, base_trial, threshold=10.0):
        ...         super().__init__(base_trial)
        ...         self.threshold = float(threshold)
        ...
        ...     def invoke_at_step(self, step):
        ...         return self.base_trial.tensor("loss").value(step).mean() > self.threshold
    """

    __eq__ = object.__eq__  # not that of a dataclass, which has no fields here
    __hash__ = object.__hash__

    def __init__(
        self, base_trial: Trial, action_str: str = "", other_trials: Sequence[Trial] | None = None
    ) -> None:
        self.base_trial = base_trial
        self.other_trials = other_trials
        self.trials = [base_trial, *(other_trials or ())]
        self.req_tensors = RequiredTensors(base_trial, other_trials)
        self.logger = logging.getLogger("tocsin.rules")
        self.rule_name = type(self).__name__
        self.report: dict[str, Any] = {
            "RuleTriggered": 0,
            "Violations": 0,
            "Details": {},
            "Datapoints": 0,
            "RuleParameters": "",
        }

    def set_required_tensors(self, step: int) -> None:
        """Name the tensors that are needed, as in ``self.req_tensors.add(name, steps=[step])``."""

    def invoke_at_step(self, step: int) -> Any:
        """Return whether the condition is met at a global step."""
        raise NotImplementedError(f"{type(self).__name__} has no invoke_at_step")

    def invoke(self, step: int) -> None:
        """Wait for a global step and judge it.

        Raises RuleEvaluationConditionMet where the condition is met, and what the trial raises
        where a step or a tensor is not there.
        """
        self.base_trial.wait_for_steps([step])
        with no_refresh(self.trials):
            self.req_tensors.clear()
            self.set_required_tensors(step)
            self.req_tensors.fetch()
            met = self.invoke_at_step(step)
        if met:
            raise RuleEvaluationConditionMet(self.rule_name, step)

    def reads(self) -> Reads:
        raise NotImplementedError(f"{type(self).__name__} has no reads")

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        raise NotImplementedError(f"{type(self).__name__} has no evaluate")

    @classmethod
    def is_for_smdebug(cls) -> bool:
        """Return whether it is a whole rule in the style of smdebug."""
        own = cls.invoke_at_step is not Rule.invoke_at_step or cls.invoke is not Rule.invoke
        return own and cls.evaluate is Rule.evaluate and not inspect.isabstract(cls)

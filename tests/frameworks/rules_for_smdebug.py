"""Rules written for smdebug, with what they use there; smdebug and Tocsin both run this file."""

from collections import defaultdict

import numpy as np
from smdebug import modes
from smdebug.core.modes import ModeKeys
from smdebug.exceptions import TensorUnavailableForStep
from smdebug.rules import Rule as SameRule
from smdebug.rules.rule import Rule

assert Rule is SameRule


class AboveAverage(Rule):
    """A running average that is an array, a count by step, a set, and infinity at first."""

    def __init__(self, base_trial, regex="weight$", factor=1.0):
        super().__init__(base_trial, action_str="")
        self.regex = regex
        self.factor = float(factor)
        self.averages = {}
        self.by_step = defaultdict(list)
        self.seen = set()
        self.lowest = float("inf")

    def set_required_tensors(self, step):
        for name in self.base_trial.tensor_names(regex=self.regex):
            self.req_tensors.add(name, steps=[step])

    def invoke_at_step(self, step):
        assert step not in self.seen
        self.seen.add(step)
        above = False
        for tensor in self.req_tensors.get():
            value = np.abs(tensor.value(step))
            average = self.averages.get(tensor.name, value)
            self.averages[tensor.name] = 0.5 * average + 0.5 * value
            self.by_step[step].append(tensor.name)
            self.lowest = min(self.lowest, value.min())
            above = above or np.any(value.mean() > self.factor * average.mean())
        assert set(self.by_step) <= self.seen
        return above


class Patience(Rule):
    """The loss of a mode, at steps of that mode, has not fallen for some steps."""

    def __init__(self, base_trial, action_str, mode="TRAIN", patience=1, collection="losses"):
        super().__init__(base_trial, action_str)
        self.mode = modes[mode]
        self.patience = int(patience)
        self.collection = collection
        self.best = None
        self.waited = 0

    def invoke_at_step(self, step):
        if self.base_trial.mode(step) != self.mode:
            return False
        (name,) = self.base_trial.tensor_names(collection=self.collection)
        own = self.base_trial.mode_step(step)
        loss = self.base_trial.tensor(name).value(own, mode=self.mode)
        if self.best is None or loss < self.best:
            self.best, self.waited = loss, 0
        else:
            self.waited += 1
        return self.waited >= self.patience


class GradientShrinks(Rule):
    """The gradient of a step is smaller than that of the step before, by a reduction."""

    def __init__(self, base_trial, reduction="l2"):
        super().__init__(base_trial, "")
        self.reduction = reduction

    def invoke_at_step(self, step):
        before = [at for at in self.base_trial.steps() if at < step]
        names = self.base_trial.tensor_names(regex="^gradient", step=step, mode=ModeKeys.GLOBAL)
        if not names or not before:
            return False
        tensor = self.base_trial.tensor(names[0])
        now = tensor.reduction_value(step, self.reduction)
        try:
            return now < tensor.reduction_value(before[-1], self.reduction)
        except TensorUnavailableForStep:
            return False


class EveryThird(Rule):
    """Counts in a plain number, and passes over steps by an exception of its own."""

    def __init__(self, base_trial):
        super().__init__(base_trial, "")
        self.count = 0

    def invoke_at_step(self, step):
        self.count += 1
        if self.count % 3 == 1:
            raise TensorUnavailableForStep("nothing", step)
        return self.count % 3 == 0


class Ending(Rule):
    """Wants no more steps after the first at which it is met."""

    def __init__(self, base_trial):
        super().__init__(base_trial, "")
        self.steps = []

    def invoke_at_step(self, step):
        from smdebug.exceptions import RuleEvaluationConditionMet

        self.steps.append(step)
        if len(self.steps) == 3:
            raise RuleEvaluationConditionMet("Ending", step, end_of_rule=True)

"""A rule written for smdebug. It watches where it is named: ``factor`` has no default."""

import numpy as np
from smdebug.rules.rule import Rule


class AboveAverage(Rule):
    """The loss is far above its running average."""

    def __init__(self, base_trial, factor):
        super().__init__(base_trial, action_str="")
        self.factor = float(factor)
        self.average = None
        self.seen = set()

    def set_required_tensors(self, step):
        for name in self.base_trial.tensor_names(collection="losses"):
            self.req_tensors.add(name, steps=[step])

    def invoke_at_step(self, step):
        assert self.base_trial.steps() == sorted({*self.seen, step})
        self.seen.add(step)
        (loss,) = (tensor.value(step) for tensor in self.req_tensors.get())
        above = self.average is not None and np.any(loss > self.factor * self.average)
        self.average = loss if self.average is None else 0.5 * self.average + 0.5 * loss
        return above

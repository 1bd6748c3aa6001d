"""A rule written for smdebug: it runs there and here, unchanged."""

import numpy as np
from smdebug.rules.rule import Rule


class LossAboveAverage(Rule):
    """The loss is far above its running average."""

    def __init__(self, base_trial, factor=2.0, decay=0.9):
        super().__init__(base_trial, action_str="")
        self.factor = float(factor)
        self.decay = float(decay)
        self.averages = {}

    def set_required_tensors(self, step):
        for name in self.base_trial.tensor_names(collection="losses"):
            self.req_tensors.add(name, steps=[step])

    def invoke_at_step(self, step):
        above = False
        for tensor in self.req_tensors.get():
            loss = np.mean(tensor.value(step))
            average = self.averages.get(tensor.name)
            if average is None:
                average = loss
            elif loss > self.factor * average:
                self.logger.info("step %d: loss %.3g, average %.3g", step, loss, average)
                above = True
            self.averages[tensor.name] = self.decay * average + (1 - self.decay) * loss
        return above

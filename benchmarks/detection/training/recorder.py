"""What our users' scripts capture of a training loop, captured with the hook."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from tocsin_hooks import Hook

from benchmarks.detection.training.data import Array
from benchmarks.detection.training.network import Activation

ROWS = 32  # of inputs, activations, labels and predictions; of an evaluation four times that
ELEMENTS = 4096  # of an activation, if that is fewer rows
WAITING = 32  # steps for which the hook's thread may be behind; it would drop some from 64 on


@dataclass
class Recorder:
    """A hook, and how many steps it was given. Names are those that Amazon's rules look for."""

    hook: Hook
    given: int = 0

    def numbers(self, loss: float, metrics: Mapping[str, float], rate: float | None) -> None:
        self.hook.save("loss", loss, "losses")
        for name, value in metrics.items():
            self.hook.save(name, value, "metrics")
        if rate is not None:
            self.hook.save("learning_rate", rate, "learning_rates")

    def batch(self, inputs: Array | None, labels: Array, predictions: Array) -> None:
        """``inputs`` are left out in an evaluation."""
        rows = ROWS if inputs is not None else 4 * ROWS
        if inputs is not None:
            self._raw(_input_name(inputs), inputs[:ROWS], "inputs")
        self._raw("labels", labels.reshape(-1)[:rows], "labels")
        self._raw("predictions", predictions[:rows], "predictions")

    def model(
        self,
        parameters: Mapping[str, Array],
        gradients: Mapping[str, Array],
        activations: Mapping[str, Activation],
    ) -> None:
        for name, value in parameters.items():
            self._raw(name, value, "biases" if "bias" in name else "weights")
        for name, value in gradients.items():
            self._raw(f"gradient/{name}", value, "gradients")
        for layer, found in activations.items():
            for side, value in {"input": found.input, "output": found.output}.items():
                name, rows = f"{layer}_{found.kind}_{side}_0", value[: _rows(value)]
                self.hook.save(name, rows, f"activation_{side}s", kind=found.kind, raw=True)

    def saved(self) -> None:
        """Wait, as a training does that takes longer than these, until the hook has caught up."""
        self.given += 1
        while self.given - self.hook.stats.saved > WAITING:
            time.sleep(0.001)

    def close(self) -> None:
        """Raises AssertionError if anything is missing in the run."""
        self.hook.close()
        stats = self.hook.stats
        assert (stats.saved, stats.errors) == (self.given, 0), stats

    def _raw(self, name: str, value: Array, collection: str) -> None:
        self.hook.save(name, value, collection, raw=True)


def _rows(value: Array) -> int:
    return min(ROWS, max(4, ELEMENTS // max(1, int(value[0].size))))


def _input_name(inputs: Array) -> str:
    if inputs.dtype.kind == "i":
        return "embedding0_input_0"
    return "hybridsequential0_input_0" if inputs.ndim == 4 else "inputs"

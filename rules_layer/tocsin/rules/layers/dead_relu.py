from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tocsin.model import Reason, Role, Severity, Verdict
from tocsin.rules import PROFILES, Meta, Reads, Rule, State, Step, register, tensor_key
from tocsin.rules._verdicts import HEALTHY, UNDECIDED, measured, not_applicable, violation
from tocsin.rules.layers._units import (
    LayerUnits,
    activations,
    active_counts,
    is_inactive,
    layer_units,
    least_active,
    values_per_unit,
)

_FOLLOWED = 160  # units of a layer: a small state, and a good estimate of their share


@register
@dataclass(frozen=True)
class DeadRelu(Rule):
    """ReLU units of a layer are dead: they output zero for every input and can no longer learn.

    A unit (for images, a channel) is inactive in a save if none of its outputs, or less than
    ``threshold_inactivity`` % of them, are above zero. Fires when more than ``threshold_layer`` %
    of a layer's units were inactive in each of the last ``saves`` saves, as in Amazon's paper
    (Rauschmayr et al., MLSys 2021): a unit that is active for a few samples is alive. It follows at
    most 160 units of a layer, evenly selected, and skips layers with more than 65,536. Amazon's
    documents do not define activity; profile ``sagemaker`` takes the share of outputs above zero in
    one step.

    Parameters
    ----------
    tensor_regex: which tensors to watch, instead of the outputs of activations of kind relu.
    threshold_inactivity: smallest share of a unit's outputs above zero, in %; 0: one is enough.
    threshold_layer: largest share of inactive units of a layer, in %.
    saves: number of consecutive saves in which the same units must be inactive.
    samples: least number of outputs of each unit in those saves.
    min_units: in a layer with fewer units all of them must be dead.

    Example: 60 of the 64 units of a layer output zero for all 640 samples of 10 saves.
    """

    profiles: ClassVar[tuple[str, ...]] = PROFILES
    sagemaker: ClassVar[Mapping[str, Any]] = {
        "threshold_inactivity": 1.0,
        "threshold_layer": 50.0,
        "saves": 1,
        "samples": 1,
        "min_units": 1,
    }
    severity: ClassVar[Severity] = Severity.INFO
    causes: ClassVar[str] = (
        "One large update, from a learning rate that is too high or an outlier, pushes the biases "
        "so far down that no input lifts a unit above zero; its gradient is zero from then on. "
        "Inputs that are not centred and negative initial biases do the same from the start."
    )
    advice: ClassVar[str] = (
        "Lower the learning rate or warm it up, clip gradients, start with He initialisation and "
        "biases of zero, normalise inputs, or use LeakyReLU or GELU."
    )

    tensor_regex: tuple[str, ...] = ()
    threshold_inactivity: Annotated[float, Meta(ge=0, le=100)] = 0.0
    threshold_layer: Annotated[float, Meta(ge=0, lt=100)] = 75.0
    saves: Annotated[int, Meta(ge=1)] = 10
    samples: Annotated[int, Meta(ge=1)] = 200
    min_units: Annotated[int, Meta(ge=1)] = 8

    def reads(self) -> Reads:
        read = activations(Role.ACTIVATION_OUTPUT, "relu", (0.0, None))
        return Reads({"outputs": read.explicitly((), self.tensor_regex)})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        memory, layers = dict(state), []
        dead = []
        for tensor in step.tensors["outputs"]:
            found = layer_units(tensor, self.threshold_inactivity, self.threshold_layer)
            if found is None:
                continue
            layers.append(found)
            silent = self._too_many(found)
            if not silent and not memory:  # nearly always: spares the key
                continue
            key = tensor_key(tensor)
            before = memory.pop(key, None)
            if not silent:
                continue
            if self.saves == 1 and values_per_unit(tensor.summary) >= self.samples:
                dead.append(found)
            elif (counts := active_counts(tensor.summary)) is not None:
                memory[key], found = self._together(found, counts, before)
                if memory[key][:2] == [self.saves, self.samples]:
                    dead.append(found)
        if not layers:
            return state, not_applicable(Reason.NO_TENSOR, "no output of a ReLU with its units")
        if (found := least_active(dead)) is None:
            if memory:
                return memory, UNDECIDED
            worst = max(layer.percent for layer in layers)
            return memory, measured(HEALTHY, worst, self.threshold_layer)
        return memory, measured(self._violation(found), found.percent, self.threshold_layer)

    def _too_many(self, found: LayerUnits) -> bool:
        if found.units < self.min_units:
            return found.inactive == found.units
        return found.percent > self.threshold_layer

    def _together(
        self, found: LayerUnits, counts: NDArray[np.uint32], before: list[Any] | None
    ) -> tuple[list[Any], LayerUnits]:
        """Return the memory of a layer, and the layer with the units that were always inactive.

        The memory has the number of saves, of values per unit, and these units in hexadecimal.
        """
        saves, values = 1, values_per_unit(found.tensor.summary)
        if len(counts) > _FOLLOWED:
            counts = counts[np.arange(_FOLLOWED) * len(counts) // _FOLLOWED]
        flags = np.packbits(is_inactive(counts, self.threshold_inactivity, values))
        bits = int.from_bytes(flags.tobytes(), "big")
        if before is not None:
            both = bits & int(before[2], 16)
            together = LayerUnits(found.tensor, len(counts), both.bit_count())
            if self._too_many(together):
                found, bits = together, both
                saves, values = saves + before[0], values + before[1]
        return [min(saves, self.saves), min(values, self.samples), f"{bits:x}"], found

    def _violation(self, found: LayerUnits) -> Verdict:
        detail = (
            f"{found.percent:.3g} % of the units of {found.tensor.name} were inactive in each of "
            f"{self.saves} saves, more than {self.threshold_layer:g} %"
        )
        evidence = {
            "dead_percent": found.percent,
            "units": found.units,
            "threshold_layer": self.threshold_layer,
        }
        return violation(Reason.ABOVE_THRESHOLD, detail, found.tensor, **evidence)

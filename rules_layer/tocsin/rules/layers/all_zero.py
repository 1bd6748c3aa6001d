from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from tocsin.model import Reason, Role, Verdict
from tocsin.rules import Meta, Read, Reads, Rule, State, Step, Tensor, register
from tocsin.rules._verdicts import HEALTHY, measured, not_applicable, violation
from tocsin.rules.gradients._updates import base_name, weight_of


@register
@dataclass(frozen=True)
class AllZero(Rule):
    """A tensor consists of zeros.

    Fires when at least ``threshold`` % of the elements of a selected tensor are exactly zero, and
    reports the tensor with the largest share. Without a selection, profile ``recommended`` watches
    weights with at least two dimensions, and fires after twenty consecutive saves; profile
    ``sagemaker`` needs a selection, as Amazon documents. Layers that start at zero and are trained
    later resolve it. Where gradients are saved, weights without a gradient are ignored: they are
    frozen or unused.

    Parameters
    ----------
    collection_names, tensor_regex: which tensors to watch; the union of both parameters.
    threshold: smallest share of elements that are zero, in %.
    weights: watch weights if nothing is selected.

    Example: every weight of a layer is 0 from the start and stays so.
    """

    options: ClassVar[Mapping[str, Any]] = {"for_steps": 20, "resolve": 1}
    sagemaker: ClassVar[Mapping[str, Any]] = {"weights": False}
    causes: ClassVar[str] = (
        "Weights that all start at zero get no gradient and stay there; weight decay or pruning is "
        "far too strong; a mask or a placeholder was never filled."
    )
    advice: ClassVar[str] = (
        "Initialise weights at random (He for ReLU, Glorot for tanh), lower weight decay, and "
        "check that the tensor is trained."
    )

    collection_names: tuple[str, ...] = ()
    tensor_regex: tuple[str, ...] = ()
    threshold: Annotated[float, Meta(gt=0, le=100)] = 100.0
    weights: bool = True

    def reads(self) -> Reads:
        if not (self._selected or self.weights):
            return Reads({})
        read = Read(roles=(Role.WEIGHT,), fields=("size", "zeros"))
        tensors = read.explicitly(self.collection_names, self.tensor_regex)
        if self._selected:
            return Reads({"tensors": tensors})
        gradients = Read(roles=(Role.GRADIENT,))
        return Reads({"tensors": tensors, "gradients": gradients}, needs=("tensors",))

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        if "tensors" not in step.tensors:
            return state, not_applicable(Reason.NO_TENSOR, "name collection_names or tensor_regex")
        names = {base_name(each.name) for each in step.tensors["tensors"]}
        gradients = step.tensors.get("gradients", ())
        pairs = ((each.worker, weight_of(base_name(each.name), names)) for each in gradients)
        trained = {(worker, name) for worker, name in pairs if name is not None}
        known = [
            (100 * tensor.summary.zeros / tensor.summary.size, tensor)
            for tensor in step.tensors["tensors"]
            if self._watches(tensor, trained)
            and tensor.summary.size
            and tensor.summary.zeros is not None
        ]
        if not known:
            return state, not_applicable(Reason.NO_TENSOR, "no tensor whose zeros are counted")
        percent, tensor = max(known, key=lambda pair: pair[0])
        if percent < self.threshold:
            return state, measured(HEALTHY, percent, self.threshold)
        size = tensor.summary.size or 0
        detail = f"{percent:.4g} % of the {size} elements of {tensor.name} are zero"
        evidence = {"percent": percent, "threshold": self.threshold, "size": size}
        found = violation(Reason.CONSTANT, detail, tensor, **evidence)
        return state, measured(found, percent, self.threshold)

    @property
    def _selected(self) -> bool:
        return bool(self.collection_names or self.tensor_regex)

    def _watches(self, tensor: Tensor, trained: set[tuple[str, str]]) -> bool:
        if self._selected:
            return True
        used = not trained or (tensor.worker, base_name(tensor.name)) in trained
        return used and tensor.shape is not None and len(tensor.shape) > 1

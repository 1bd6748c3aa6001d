from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

from tocsin.model import Reason, Severity, Verdict
from tocsin.rules import Meta, Read, Reads, Rule, State, Step, Tensor, register
from tocsin.rules._verdicts import HEALTHY, measured, not_applicable, violation
from tocsin.rules.workers._difference import DIFFERENCE_FIELDS, times_tolerance


@register
@dataclass(frozen=True)
class SimilarAcrossRuns(Rule):
    """Tensors of this run differ from those of another run at the same step.

    Fires when they are *not* similar, as Amazon's rule of this name does. Compares the tensors that
    both runs have at the same global step, by name and worker. Sizes and the counts of NaN and
    infinities must be equal; means, extremes and norms must agree within ``atol + rtol * scale``,
    as they do if every element is that close. If both tolerances are 0, the fingerprints must be
    equal, which is exact. Amazon's documents name no tolerance.

    Parameters
    ----------
    other_trials: the runs to compare with: URLs, or names of jobs beside this one. Required.
    rtol: tolerance as a fraction of the tensor's own scale.
    atol: tolerance in units of the tensor.
    collection_names, tensor_regex: which tensors to compare; default: all.

    Example: a rerun with the same seed whose loss at step 10 is 0.512 instead of 0.498.
    """

    profiles: ClassVar[tuple[str, ...]] = ()
    severity: ClassVar[Severity] = Severity.INFO
    causes: ClassVar[str] = (
        "The runs had different data, seeds, orders of batches, code or library versions; or an "
        "operation is not deterministic."
    )
    advice: ClassVar[str] = (
        "Look at the first step and tensor that differ: inputs point to the data, weights at step "
        "0 to the initialisation, gradients to the code. Raise rtol if they differ by rounding "
        "only."
    )

    other_trials: tuple[str, ...] = ()
    rtol: Annotated[float, Meta(ge=0)] = 1e-5
    atol: Annotated[float, Meta(ge=0)] = 1e-8
    collection_names: tuple[str, ...] = ()
    tensor_regex: tuple[str, ...] = ()

    def reads(self) -> Reads:
        read = Read(fields=DIFFERENCE_FIELDS)
        read = read.explicitly(self.collection_names, self.tensor_regex)
        return Reads({"tensors": read}, runs=self.other_trials)

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        if not self.other_trials:
            why = "parameter other_trials is missing: it names the runs to compare with"
            return state, not_applicable(Reason.NO_TENSOR, why)
        here = step.tensors["tensors"]
        found = [
            (times_tolerance(one.summary, other.summary, self.rtol, self.atol), run, one, other)
            for run, reads in step.others.items()
            for one, other in _pairs(here, reads.get("tensors", ()))
        ]
        if not found:
            return state, not_applicable(Reason.NO_TENSOR, "no tensor that both runs have")
        times, run, one, other = max(found, key=lambda each: each[0])
        if times <= 1:
            return state, measured(HEALTHY, times, 1)
        detail = f"{one.name} differs from {run}: {_shown(one)} here, {_shown(other)} there"
        means = {"mean": one.summary.mean, "other_mean": other.summary.mean}
        evidence = {name: mean for name, mean in means.items() if mean is not None}
        fault = violation(Reason.DIFFERENT, detail, one, **evidence, times_tolerance=times, run=run)
        return state, measured(fault, times, 1, name="times_tolerance")


def _pairs(here: Iterable[Tensor], there: Iterable[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the pairs of tensors that both runs have."""
    others = {(tensor.worker, tensor.name): tensor for tensor in there}
    for tensor in here:
        if other := others.get((tensor.worker, tensor.name)):
            yield tensor, other


def _shown(tensor: Tensor) -> str:
    summary = tensor.summary
    known = {"size": summary.size, "mean": summary.mean, "norm": summary.l2}
    return " ".join(f"{name} {number:.6g}" for name, number in known.items() if number is not None)

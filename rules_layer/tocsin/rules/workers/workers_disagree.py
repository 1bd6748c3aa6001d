from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

from tocsin.model import Reason, Role, Verdict
from tocsin.rules import Meta, Read, Reads, Rule, State, Step, Tensor, register, tensor_key
from tocsin.rules._verdicts import HEALTHY, measured, not_applicable, violation
from tocsin.rules.workers._difference import DIFFERENCE_FIELDS, times_tolerance

_SAME = 0.2  # changes are the same if they differ by at most this fraction of the larger one
_ROUNDING = 1e-6  # a smaller change of the mean, as a fraction of mean |w|, is rounding
_ENOUGH, _MOST = 10, 0.7  # how many changes are compared, and the share that must be the same


@register
@dataclass(frozen=True)
class WorkersDisagree(Rule):
    """Workers that should have the same weights do not.

    Fires after three consecutive saved steps in which a weight differs between workers although it
    was the same in all of them before, beyond ``rtol`` in size, mean, extremes or norm. Also fires
    when weights never agreed but change in the same way: the workers share gradients but started
    with different weights. Compares files with the same step number, mode and mode step. Shards of
    a model (FSDP, tensor or expert parallel) and ensembles do not fire, since they differ from
    their first common step on and change differently. If workers diverge by design (local SGD, a
    parameter server), leave this rule out, or name other weights.

    Parameters
    ----------
    rtol: largest difference by rounding, as a fraction of the weight's own scale.
    collection_names, tensor_regex: which tensors to compare instead of weights and biases.

    Example: one of two workers misses the all-reduce from step 100 on.
    """

    options: ClassVar[Mapping[str, Any]] = {"for_steps": 3}
    causes: ClassVar[str] = (
        "Gradients are not averaged between the workers: a layer outside of the data-parallel "
        "wrapper, an optimizer step that one worker skips, or weights changed in one worker only. "
        "Or the initial weights were not sent to all workers."
    )
    advice: ClassVar[str] = (
        "Check that every parameter is inside the data-parallel wrapper, that no worker skips "
        "optimizer steps (loss scaling, an uneven number of batches), and that all start with the "
        "same weights or load the same model checkpoint."
    )

    rtol: Annotated[float, Meta(gt=0, lt=1)] = 1e-4
    collection_names: tuple[str, ...] = ()
    tensor_regex: tuple[str, ...] = ()

    def reads(self) -> Reads:
        read = Read(roles=(Role.WEIGHT, Role.BIAS), fields=DIFFERENCE_FIELDS, back=2)
        weights = read.explicitly(self.collection_names, self.tensor_regex)
        return Reads({"weights": weights}, peers=True)

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        agreed: Mapping[str, int] = state.get("agreed", {})
        moved, alike = state.get("moved", 0), state.get("alike", 0)
        newly: dict[str, int] = {}
        pairs, strangers = [], []
        for tensors in _weights_of_workers(step.tensors["weights"]):
            pair = self._farthest(tensors)
            key = tensor_key(Tensor(pair.usual.name, "", pair.usual.summary))
            if key in agreed:
                pairs.append(pair)
            elif pair.times > 1:
                strangers.append(pair)
                together = _changed_alike(pair)
                moved += together is not None
                alike += together is True
            elif _varies(pair.usual):
                pairs.append(pair)
                newly[key] = 1
        agreed = {**agreed, **newly} if newly else agreed
        state = {"agreed": agreed, "moved": moved, "alike": alike}
        if moved >= _ENOUGH and alike >= _MOST * moved:
            pairs += strangers
        if not pairs:
            why = "no weight that two workers share"
            return state, not_applicable(Reason.NO_TENSOR, why)
        worst = max(pairs, key=lambda pair: pair.times)
        if worst.times > 1:
            return state, self._found(worst)
        return state, measured(HEALTHY, worst.times * self.rtol, self.rtol)

    def _farthest(self, tensors: Sequence[Tensor]) -> _Copies:
        """Return the copy that differs most from the one with the median norm."""
        usual = sorted(tensors, key=lambda tensor: tensor.summary.l2 or 0.0)[len(tensors) // 2]
        apart = [times_tolerance(tensor.summary, usual.summary, self.rtol) for tensor in tensors]
        times = max(apart)
        return _Copies(times, tensors[apart.index(times)], usual)

    def _found(self, pair: _Copies) -> Verdict:
        odd, usual = pair.odd, pair.usual
        apart = pair.times * self.rtol
        detail = (
            f"{odd.name} differs by {apart:.3g} of its scale between {odd.worker} and "
            f"{usual.worker}: norms {_shown(odd)} and {_shown(usual)}"
        )
        evidence = {"difference": apart, "rtol": self.rtol}
        found = violation(Reason.DIFFERENT, detail, odd, **evidence, other_worker=usual.worker)
        return measured(found, apart, self.rtol)


class _Copies(NamedTuple):
    """The copy that differs most, and the usual one, which has the median norm.

    ``times``: their difference, in multiples of the tolerance.
    """

    times: float
    odd: Tensor
    usual: Tensor


def _weights_of_workers(tensors: Iterable[Tensor]) -> Iterator[tuple[Tensor, ...]]:
    """Yield the copies of each weight that several workers have in the same shape."""
    named: dict[str, dict[str, Tensor]] = {}
    for tensor in tensors:
        named.setdefault(tensor.name, {})[tensor.worker] = tensor
    for copies in named.values():
        if len(copies) > 1 and len({_shape(tensor) for tensor in copies.values()}) == 1:
            yield tuple(copies.values())


def _shape(tensor: Tensor) -> tuple[int | None, ...]:
    return (tensor.summary.size,) if tensor.shape is None else tensor.shape


def _changed_alike(pair: _Copies) -> bool | None:
    """Return whether the changes of both means change in the same way; None if it is not known.

    Compares the difference between a change and the one before, which is due to the gradients. The
    change itself is also due to weight decay, which changes different weights differently.
    """
    one, other = _second_difference(pair.odd), _second_difference(pair.usual)
    if one is None or other is None:
        return None
    largest = max(abs(one), abs(other))
    if largest <= _ROUNDING * (pair.usual.summary.abs_mean or 0.0):
        return None
    return abs(one - other) <= _SAME * largest


def _second_difference(tensor: Tensor) -> float | None:
    means = [each.summary.mean for each in (tensor, *tensor.previous)]
    known = [mean for mean in means if mean is not None]
    return known[0] - 2 * known[1] + known[2] if len(known) == 3 else None


def _varies(tensor: Tensor) -> bool:
    """Return whether the elements differ, so an equal copy is not a coincidence."""
    low, high = tensor.summary.min, tensor.summary.max
    return low is not None and high is not None and low < high


def _shown(tensor: Tensor) -> str:
    return "unknown" if tensor.summary.l2 is None else f"{tensor.summary.l2:.6g}"

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Annotated, Any, ClassVar

from tocsin.model import Mode, Reason, Verdict
from tocsin.rules import Meta, Reads, Rule, State, Step, Tensor, register
from tocsin.rules._kinds import acts
from tocsin.rules._series import LOSSES
from tocsin.rules._verdicts import (
    HEALTHY,
    UNDECIDED,
    measured,
    not_applicable,
    violation,
    worst_verdict,
)
from tocsin.rules.data._inputs import INPUTS, has_features, moments
from tocsin.rules.evaluation._beside_losses import lost, lost_of_won, with_losses, worse_by
from tocsin.rules.evaluation._columns import COLUMNS, judge_columns
from tocsin.rules.evaluation._columns_of_inputs import (
    feature_of,
    goes_on,
    other_feature,
    with_batch,
)

_FEATURES = 32  # of an input that the memory keeps, evenly selected
_INPUTS = 4  # tensors that are followed
_ROWS = 4  # of a batch: fewer show too little of a feature's variance
_MANY_ROWS = 8  # of each batch, to judge means
_BATCHES = 5  # of TRAIN
_DEVIATIONS = 1.0  # a mean is shifted by more than this standard deviation of its feature
_FAR = 3.0  # deviations, if the evaluation loss is unknown
_ERRORS = 6.0  # and standard errors
_WORSE = 0.2  # largest excess of evaluation loss over training loss, as a fraction of it
_OF_WON = 0.25  # of training's improvement: the excess of evaluation loss if one feature differs
_ONE_QUANTITY = 3  # dimensions, at most, of windows of a series
_LOST = 0.05  # and of the first training loss: less is small compared with the improvement
_DIGITS = 5  # of a number in the state

_Memory = Mapping[str, Any]
"""The batches of an input in a mode.

``n``, ``samples``: the number of batches, and of samples in them.
``variance``: the sum over the batches of the mean variance of all features.
``range``: the smallest and the largest of these variances.
``sums``: for some features the sums over the batches of mean, squared mean and variance.
``rows``: of the smallest batch.
``kept``: of TRAIN, for some features what ``with_batch`` keeps.
"""


@register
@dataclass(frozen=True)
class TrainEvalInputs(Rule):
    """The inputs of evaluations have a different scale or different means than those of training.

    Compares the features of inputs, or the channels of images, between TRAIN and EVAL over all
    saves. Fires when their standard deviation differs by more than the factor ``scale``, when the
    means of at least the share ``shifted`` of them differ by more than one standard deviation, or
    when a single one lies outside all training batches. Evaluation loss must be worse as well,
    where it is known: intended differences, such as noise in training only, do not fire. Ignores
    integers (token ids, bytes), inputs with a name like mask, index or length, and reinforcement
    learning, where the model's actions change its inputs.

    For boosted trees, compares the quartiles of each column in the data sets given to ``train``,
    ten rounds after the first one, and fires at once when columns have swapped places.

    Parameters
    ----------
    scale: largest ratio of the standard deviations.
    shifted: share of the features whose means differ.
    samples: evaluation samples before judging.
    tensor_regex: which tensors to watch, instead of those with role input.

    Example: images are divided by 255 in the training data set, but not in the evaluation data set.
    """

    options: ClassVar[Mapping[str, Any]] = {"resolve": 2}
    causes: ClassVar[str] = (
        "Evaluations preprocess their data with different code than training: a scaling is missing"
        " or applied twice, or statistics of another data set are used."
    )
    advice: ClassVar[str] = (
        "Prepare both with one function and the statistics of the training set. Compare one batch "
        "of each as the model receives it."
    )

    scale: Annotated[float, Meta(gt=1)] = 2.0
    shifted: Annotated[float, Meta(gt=0, le=1)] = 0.25
    samples: Annotated[int, Meta(ge=2)] = 64
    tensor_regex: tuple[str, ...] = ()

    def reads(self) -> Reads:
        inputs = INPUTS.explicitly((), self.tensor_regex)
        columns = {} if self.tensor_regex else {"columns": COLUMNS}
        return Reads({"inputs": inputs, "losses": LOSSES, **columns})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        if step.tensors.get("columns") or "columns" in state:
            columns, verdict = judge_columns(state.get("columns", {}), step, self.shifted)
            return {"columns": columns} if columns else state, verdict
        if step.mode is Mode.PREDICT:
            return state, not_applicable(Reason.NO_TENSOR, "a step of mode PREDICT")
        if any(acts(tensor) for tensor in step.tensors["losses"]):
            state = {"acts": True}
        if "acts" in state:
            return state, not_applicable(
                Reason.NO_TENSOR, "reinforcement learning, where actions change the inputs"
            )
        known = [
            (tensor, found)
            for tensor in step.tensors["inputs"]
            if (tensor.shape or (0,))[0] >= _ROWS
            and has_features(tensor, named=bool(self.tensor_regex))
            and (found := moments(tensor))
        ]
        if not known:
            return state, not_applicable(
                Reason.NO_TENSOR, "no inputs with features of real numbers, of four samples or more"
            )
        mode = Mode.EVAL if step.mode is Mode.EVAL else Mode.TRAIN
        state = with_losses(state, step, mode)
        verdicts = []
        for tensor, found in known:
            memory: dict[str, Any] = dict(state.get("inputs", {}))
            name = tensor.name[-40:]
            if name not in memory and len(memory) >= _INPUTS:
                continue
            here = memory.get(name, {})
            before = here.get(mode.name, {})
            added = _added(before, found, (tensor.shape or (1,))[0], mode)
            here = {**here, mode.name: added}
            state = {**state, "inputs": {**memory, name: here}}
            verdicts.append(self._judged(here, state, tensor))
        return state, worst_verdict(verdicts)

    def _judged(self, here: Mapping[str, _Memory], state: State, tensor: Tensor) -> Verdict:
        train, held = here.get(Mode.TRAIN.name), here.get(Mode.EVAL.name)
        if train is None or held is None:
            return UNDECIDED
        if train["n"] < _BATCHES or held["samples"] < self.samples:
            return UNDECIDED
        train_scale, held_scale = (math.sqrt(m["variance"] / m["n"]) for m in (train, held))
        least, most = sorted((train_scale, held_scale))
        ratio = most / least if least else (math.inf if most else 1.0)
        worse = worse_by(state)
        many = min(train["rows"], held["rows"]) >= _MANY_ROWS
        share = _shifted(train, held, _FAR if worse is None else _DEVIATIONS) if many else 0.0
        by_scale = measured(HEALTHY, ratio, self.scale)
        by_means = measured(HEALTHY, share, self.shifted)
        if worse is not None and worse <= 0:
            return worst_verdict([by_scale, by_means])
        if len(tensor.shape or ()) <= _ONE_QUANTITY and goes_on(train, held):
            return worst_verdict([by_scale, by_means])
        differs = most > self.scale * least and not _is_usual(held_scale, train)
        harmless = worse is not None and (worse < _WORSE or lost(state) < _LOST)
        differs = differs and (held_scale > train_scale or not harmless)
        if differs and _have_another_size(train, held, math.sqrt(self.scale)):
            detail = (
                f"the standard deviation of {tensor.name} is {held_scale:.3g} in EVAL and "
                f"{train_scale:.3g} in TRAIN: evaluation data is scaled differently"
            )
            evidence = {"eval": held_scale, "train": train_scale, "limit": self.scale}
            found = violation(Reason.DIFFERENT, detail, tensor, **evidence)
            return measured(found, ratio, self.scale, name="ratio")
        if share < self.shifted or harmless:
            one = other_feature(train, held) if many and lost_of_won(state) >= _OF_WON else None
            healthy = worst_verdict([by_scale, by_means])
            return healthy if one is None else self._single(one, train, held, tensor)
        detail = (
            f"the means of {100 * share:.0f} % of the features of {tensor.name} differ between "
            "EVAL and TRAIN by more than a standard deviation: evaluation data is "
            "preprocessed differently"
        )
        found = violation(Reason.DIFFERENT, detail, tensor, shifted=share, limit=self.shifted)
        return measured(found, share, self.shifted)

    def _single(self, at: int, train: _Memory, held: _Memory, tensor: Tensor) -> Verdict:
        ours, theirs = (feature_of(each["sums"][at], each["n"]) for each in (train, held))
        many = train.get("features", 0)
        place = f"feature {at * many // min(many, _FEATURES)}" if many else "a feature"
        detail = (
            f"{place} of {tensor.name} has mean {theirs.mean:.3g} and standard deviation "
            f"{theirs.deviation:.3g} in EVAL, but {ours.mean:.3g} and {ours.deviation:.3g} in "
            "TRAIN, while most other features agree: it has a different unit or scaling"
        )
        evidence = {"eval": theirs.deviation, "train": ours.deviation}
        found = violation(Reason.DIFFERENT, detail, tensor, **evidence)
        return measured(found, 1.0, 1.0, name="features")


def _have_another_size(train: _Memory, held: _Memory, least: float) -> bool:
    """Return whether the numbers themselves are larger or smaller, too, by a factor: samples of an
    evaluation that follow each other, as windows of a series, only lie closer together."""
    sizes = [
        math.sqrt(sum(squares + within for _, squares, within in m["sums"]) / m["n"])
        for m in (train, held)
    ]
    return max(sizes) > least * min(sizes)


def _added(
    memory: _Memory, found: Sequence[tuple[float, float]], samples: int, mode: Mode
) -> _Memory:
    """Add a batch to a memory. Features that are not finite at times make it start again."""
    chosen = [found[at * len(found) // _FEATURES] for at in range(_FEATURES)]
    chosen = chosen if len(found) > _FEATURES else list(found)
    before = memory.get("sums", ())
    variance = _rounded(fmean(v for _, v in found))
    if len(before) != len(chosen):
        memory, before = {}, [(0.0, 0.0, 0.0)] * len(chosen)
    sums = [
        [_rounded(total + mean), _rounded(squares + mean * mean), _rounded(within + variance)]
        for (total, squares, within), (mean, variance) in zip(before, chosen, strict=True)
    ]
    kept = memory.get("kept") or ([()] * len(chosen) if not memory else ())
    more: dict[str, Any] = {"features": len(found)}
    if mode is Mode.TRAIN and kept:  # an earlier version kept nothing of this
        now = [with_batch(a, *b) for a, b in zip(kept, chosen, strict=True)]
        more["kept"] = [[_rounded(number) for number in each] for each in now]
    return {
        "n": memory.get("n", 0) + 1,
        "samples": memory.get("samples", 0) + samples,
        "rows": min(memory.get("rows", samples), samples),
        "variance": _rounded(memory.get("variance", 0.0) + variance),
        "range": _widened(memory.get("range", (variance, variance)), variance),
        "sums": sums,
        **more,
    }


def _widened(span: Sequence[float], now: float) -> list[float]:
    return [min(span[0], now), max(span[1], now)]


def _is_usual(scale: float, train: _Memory) -> bool:
    """Return whether single batches of TRAIN have such a standard deviation, and larger and smaller
    ones.

    Evaluations often begin with the same few samples, of which one far away may be missing.
    """
    low, high = train.get("range", (math.inf, 0.0))  # of earlier versions: not known
    return bool(low <= scale**2 <= high)


def _rounded(number: float) -> float:
    return float(f"{min(max(number, -1e300), 1e300):.{_DIGITS + 3}g}")


def _shifted(train: _Memory, held: _Memory, deviations: float) -> float:
    """Return the share of the features, of those that vary, with another mean in EVAL."""
    far, live = 0, 0
    for ours, theirs in zip(train["sums"], held["sums"], strict=False):
        (mean, between, within), n = feature_of(ours, train["n"]), train["n"]
        (held_mean, held_between, held_within), k = feature_of(theirs, held["n"]), held["n"]
        deviation = math.sqrt(max(within, held_within))
        if not deviation > 0:
            continue
        live += 1
        between = max(between, held_between) if k >= _BATCHES else between
        error = math.sqrt(between / n + between / k)
        apart = abs(mean - held_mean)
        far += apart > deviations * deviation and apart > _ERRORS * error
    return far / live if live else 0.0

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from tocsin.model import Mode, Reason, Verdict
from tocsin.rules import (
    HEALTHY,
    UNDECIDED,
    Meta,
    Reads,
    Rule,
    State,
    Step,
    Tensor,
    measured,
    not_applicable,
    register,
    violation,
)
from tocsin.rules._kinds import with_level
from tocsin.rules._series import TRAINING
from tocsin.rules._train_eval import read_losses, select_losses
from tocsin.rules.data._samples import SAMPLES, add_batches, different_samples, sample_batches
from tocsin.rules.evaluation._restart import WEIGHTS, has_restarted

_ELEMENTS = 8  # of a sample: those with fewer may be alike by chance
_COMPARED = 12  # hashes of samples of evaluations
_EVALUATIONS = 2
_WHOLE = 0.6  # of all samples, in each batch: evaluations may be of other labels of the same. Their
# number is an estimate by 64 hashes, of which an eighth is the standard error.


@register
@dataclass(frozen=True)
class TrainEvalOverlap(Rule):
    """Evaluations see the very samples that the model is trained on, and no others.

    The hook saves hashes of the samples of training and of those of evaluations. The smallest of
    both are compared: fires when at least the share ``most`` of those of evaluations were seen in
    training, from the second evaluation on. Where evaluations see both kinds, it does not fire.
    Judges only samples of at least eight numbers, of which some are no integers, and evaluations
    with a loss. Where a model starts again, as in the next fold of a cross-validation, what it saw
    before does not count. Does not judge models that act or compete, nor where each batch holds all
    samples, as in a graph whose nodes are masked.

    Parameters
    ----------
    most: share of the samples of evaluations that may be known.

    Example: the data set of evaluations is read from the file of the training.
    """

    options: ClassVar[Mapping[str, Any]] = {"resolve": 1}
    causes: ClassVar[str] = (
        "The data was not divided, or evaluations read the file or the loader of the training; "
        "or samples were copied before the data was divided."
    )
    advice: ClassVar[str] = (
        "Keep samples aside that are never trained on, divide before anything is copied, and "
        "evaluate on these: what is measured now does not show how well the model does on others."
    )

    most: Annotated[float, Meta(gt=0, le=1)] = 0.9

    def reads(self) -> Reads:
        return Reads({"samples": SAMPLES, "losses": read_losses(()), "weights": WEIGHTS})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        all_losses = select_losses(step.tensors["losses"], ())
        losses, kinds = with_level(all_losses, named=False)
        saved = step.tensors["samples"]
        batches = sample_batches(saved)
        evaluates = step.mode is Mode.EVAL
        if not batches or not (step.mode in TRAINING or evaluates):
            return state, not_applicable(Reason.NO_TENSOR, "no hashes of samples")
        if all_losses and not losses:
            return state, not_applicable(Reason.NO_TENSOR, f"a loss that is {kinds}")
        if evaluates and not losses:
            return state, not_applicable(Reason.NO_TENSOR, "an evaluation without a loss")
        restarted = False
        if not evaluates:
            state, restarted = has_restarted(state, step, losses)
        if restarted:  # the samples since the last save may be those of before
            return {**state, "held": None, "seen": None}, UNDECIDED
        key = "held" if evaluates else "seen"
        state = {**state, key: add_batches(state.get(key) or {}, batches)}
        return state, self._judged(state, saved[0])

    def _judged(self, state: State, tensor: Tensor) -> Verdict:
        seen, held = state.get("seen"), state.get("held")
        if seen is None or held is None or min(seen["elements"], held["elements"]) < _ELEMENTS:
            return UNDECIDED
        batch = seen["drawn"] / seen["steps"]
        if different_samples(seen) * _WHOLE <= batch:
            return UNDECIDED
        up_to = min(seen["up_to"], held["up_to"])
        compared = [each for each in held["hashes"] if 0 < each <= up_to]
        if len(compared) < _COMPARED or held["steps"] < _EVALUATIONS:
            return UNDECIDED
        known = {*seen["hashes"]}
        share = sum(each in known for each in compared) / len(compared)
        if share < self.most:
            return measured(HEALTHY, share, self.most)
        detail = (
            f"{100 * share:.0f} % of the samples of evaluations were seen in training, by hashes "
            f"of {len(compared)} of them"
        )
        found = violation(Reason.ABOVE_THRESHOLD, detail, tensor, share=share, most=self.most)
        return measured(found, share, self.most)

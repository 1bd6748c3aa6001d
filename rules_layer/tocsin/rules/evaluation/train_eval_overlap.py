from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from tocsin.model import Mode, Reason, Verdict
from tocsin.rules import Meta, Reads, Rule, State, Step, Tensor, register
from tocsin.rules._kinds import with_level
from tocsin.rules._loss_names import read_losses, select_losses
from tocsin.rules._series import TRAINING
from tocsin.rules._verdicts import HEALTHY, UNDECIDED, measured, not_applicable, violation
from tocsin.rules.data._samples import SAMPLES, add_batches, different_samples, sample_batches
from tocsin.rules.evaluation._restart import WEIGHTS, has_restarted

_ELEMENTS = 8  # elements of a sample: smaller ones may be equal by chance
_COMPARED = 12  # hashes of samples of evaluations
_EVALUATIONS = 2  # steps of evaluation before judging
_WHOLE = 0.6  # of all samples, in each batch: evaluations may be of other labels of the same. Their
# number is an estimate by 64 hashes, of which an eighth is the standard error.


@register
@dataclass(frozen=True)
class TrainEvalOverlap(Rule):
    """Evaluations use only samples that the model is trained on.

    The hook saves hashes of training and evaluation samples, and the rule compares the smallest
    hashes of both. From the second evaluation on, fires when at least the share ``most`` of the
    evaluation samples were seen in training. Judges only samples of at least eight numbers that are
    not all integers, and evaluations with a loss. When a model restarts, as in the next fold of a
    cross-validation, earlier samples do not count. Ignores reinforcement learning, adversarial
    training, batches that hold all samples, as in a graph with masked nodes, and evaluations of all
    training samples and then of others, for the accuracy on both.

    Parameters
    ----------
    most: largest share of evaluation samples that may be known from training.

    Example: the evaluation data set is read from the training file.
    """

    options: ClassVar[Mapping[str, Any]] = {"resolve": 1}
    causes: ClassVar[str] = (
        "The data was not split, evaluations read the training file or loader, or samples were "
        "duplicated before the split."
    )
    advice: ClassVar[str] = (
        "Hold out samples that are never trained on, split before anything is duplicated, and "
        "evaluate on the held-out set. Present results do not show how well the model generalises."
    )

    most: Annotated[float, Meta(gt=0, le=1)] = 0.9

    def reads(self) -> Reads:
        tensors = {"samples": SAMPLES, "losses": read_losses(()), "weights": WEIGHTS}
        return Reads(tensors, needs=("samples",))

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        all_losses = select_losses(step.tensors["losses"], ())
        losses, kinds = with_level(all_losses, named=False)
        saved = step.tensors["samples"]
        batches = sample_batches(saved)
        evaluates = step.mode is Mode.EVAL
        if not batches or not (step.mode in TRAINING or evaluates):
            return state, not_applicable(Reason.NO_TENSOR, "no sample hashes")
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
        of_both = share < 1 and {each for each in known if 0 < each <= up_to} <= {*compared}
        if share < self.most or of_both:
            return measured(HEALTHY, share, self.most)
        detail = (
            f"{100 * share:.0f} % of the evaluation samples were also seen in training "
            f"({len(compared)} hashes compared)"
        )
        found = violation(Reason.ABOVE_THRESHOLD, detail, tensor, share=share, most=self.most)
        return measured(found, share, self.most)

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from tocsin.model import Mode, Reason, Role, Verdict
from tocsin.rules import Meta, Read, Reads, Rule, State, Step, Tensor, register
from tocsin.rules._kinds import with_level
from tocsin.rules._loss_names import read_losses, select_losses
from tocsin.rules._train_eval import follow_losses
from tocsin.rules._verdicts import HEALTHY, UNDECIDED, measured, not_applicable, violation
from tocsin.rules.data._samples import (
    SAMPLES,
    add_batches,
    different_samples,
    is_estimate,
    sample_batches,
)

_COVERED = 5  # passes over all samples before they are counted
_ELEMENTS = 8  # smallest size of a sample: a few points in a plane may be the whole data set
_SOON = 100  # training steps in which acting models are recognised
_MANY_LABELS = 16  # of a sample
_BATCHES = 2  # batches that a data set exceeds, unless one batch is the whole data set
_WORSE = 0.5  # largest excess of evaluation loss over training loss, as a fraction of it


@register
@dataclass(frozen=True)
class FewSamples(Rule):
    """The model sees the same few samples again and again.

    Fires from training step 100 on when there are at most ``most`` different samples and each was
    seen ``times`` times. The hook saves hashes of the training samples; the smallest hashes show
    how many different ones there are, to within a tenth. Resolved by evaluations that do about as
    well as training: their loss is less than half above training loss. Samples with sixteen or more
    labels, such as texts and image masks, are too few only if all of them fit into two batches.
    Ignores samples with fewer than eight numbers and reinforcement learning; augmented samples
    count as different.

    Parameters
    ----------
    most: largest number of different samples that is too few.
    times: number of times that each sample was seen.

    Example: the batch is drawn with a generator that is seeded again in each step, so that all
    steps train on the same 32 samples.
    """

    options: ClassVar[Mapping[str, Any]] = {"resolve": 1}
    causes: ClassVar[str] = (
        "A seed is set again at each step, an index does not advance, or a filter or subset of a "
        "quick trial was left in place. Or the data set really is this small."
    )
    advice: ClassVar[str] = (
        "Print the length of the data set, and look at the indices of a few batches. If there are "
        "no more samples, evaluate on others, and use augmentation or a smaller model."
    )

    most: Annotated[int, Meta(ge=1)] = 100
    times: Annotated[int, Meta(ge=2)] = 20

    def reads(self) -> Reads:
        labels = Read(roles=(Role.LABEL,))
        return Reads({"samples": SAMPLES, "losses": read_losses(()), "labels": labels})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        all_losses = select_losses(step.tensors["losses"], ())
        losses, kinds = with_level(all_losses, named=False)
        followed, finished, _ = follow_losses(state.get("losses", {}), step, losses, None)
        state = {**state, "losses": followed}
        for each in finished:
            state = {**state, "held": (each.level, each.train_level)}
        saved = step.tensors["samples"]
        batches = sample_batches(saved)
        if step.mode in (Mode.EVAL, Mode.PREDICT) or not batches:
            return state, not_applicable(Reason.NO_TENSOR, "no sample hashes of training")
        if all_losses and not losses:
            none = not_applicable(Reason.NO_TENSOR, f"a loss that is {kinds}")
            return state, HEALTHY if "seen" in state else none  # it shows only now
        state = {**state, "seen": add_batches(state.get("seen", {}), batches)}
        labels = max((each.summary.size or 0 for each in step.tensors["labels"]), default=0)
        state = {**state, "labels": max(labels, state.get("labels", 0))}
        return state, self._judged(state, step.mode_step, saved[0])

    def _judged(self, state: State, now: int, tensor: Tensor) -> Verdict:
        seen = state["seen"]
        different = different_samples(seen)
        if not different or seen["elements"] < _ELEMENTS:
            return UNDECIDED
        batch = seen["drawn"] / seen["steps"]
        many = state["labels"] >= _MANY_LABELS * batch
        most = min(self.most, round(_BATCHES * batch)) if many else self.most
        healthy = measured(HEALTHY, different, most, "below")
        if different <= most and seen["drawn"] < _COVERED * different:
            return UNDECIDED
        steps = max(now, seen["steps"] / seen["workers"])
        each = batch * seen["workers"] * steps / different
        if different > most or each < self.times or _is_as_good(state.get("held")):
            return healthy
        if steps < _SOON:
            return UNDECIDED
        number = round(different)
        about = "about " if is_estimate(seen) else ""
        samples = f"{number} different sample{'s' if number > 1 else ''}"
        detail = f"the model was trained on only {about}{samples}, each seen about {each:.0f} times"
        evidence = {"different": number, "times": round(each)}
        found = violation(Reason.BELOW_THRESHOLD, detail, tensor, **evidence)
        return measured(found, different, most, "below")


def _is_as_good(held: tuple[float, float | None] | None) -> bool:
    """Return whether evaluations do about as well as training."""
    evaluated, trained = held or (0.0, None)
    return trained is not None and evaluated - trained < _WORSE * abs(trained)

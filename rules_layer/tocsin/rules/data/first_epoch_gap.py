from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Annotated, Any, ClassVar

from tocsin.model import Mode, Reason, Verdict
from tocsin.rules import Meta, Reads, Rule, State, Step, Tensor, register
from tocsin.rules._series import TRAINING
from tocsin.rules._verdicts import (
    HEALTHY,
    UNDECIDED,
    measured,
    not_applicable,
    violation,
    worst_verdict,
)
from tocsin.rules._window import rounded
from tocsin.rules.data._samples import SAMPLES, add_batches, different_samples, sample_batches
from tocsin.rules.skill._pairing import MOST_SITES, SKILLS, LossSite, sites

_SAVES = 8  # training saves whose losses are compared
_STEPS = 100  # training steps before the first check: batch normalisation needs statistics
_PASSES = 1.3  # passes over the data in which almost nothing is memorised
_WHOLE = 0.9  # smallest fraction of the steps that must have been hashed
_LEARNED = 0.2  # improvement over shuffled labels or a constant prediction, as a fraction
_HALF = 0.5  # of it: by then an evaluation shows a gap that was there from the start
_LATEST = 3  # training saves that such an evaluation is compared with
_LOOKS = 2  # in a row
_LARGER = 2.0  # largest ratio of batch sizes, for hand-written losses that may depend on them

_Level = tuple[float, float, float | None, float]

_Memory = Mapping[str, Any]
"""The memory of a loss function: ``past``, of the last saves of training the loss, its share of
that with other labels, its share of a constant guess's loss or None, and the samples of a
comparison. ``ratio``, of the last evaluation; ``bad``, the evaluations in a row with a gap;
``none``, whether one had no gap though training had learned half."""


@register
@dataclass(frozen=True)
class FirstEpochGap(Rule):
    """Evaluation loss is far above training loss, although all training samples are still new.

    While all samples are new, nothing can be memorised, so training loss and evaluation loss should
    agree. Fires when the loss of two consecutive evaluations of ``samples`` samples is at least
    ``ratio`` times the mean of the last eight training saves, and the same holds for both losses
    relative to shuffled labels and to a constant prediction. So a loss that evaluations scale, sum
    or weight differently does not fire. The rule stops at the first evaluation without a gap once
    training loss has halved: randomly augmented samples look new. For a hand-written loss,
    evaluation batches must not be more than twice as large as training batches.

    Parameters
    ----------
    ratio: smallest ratio of the losses.
    samples: smallest number of evaluation samples.

    Example: images are scaled to 0 … 1 in training and to −1 … 1 in evaluations.
    """

    options: ClassVar[Mapping[str, Any]] = {"resolve": 1}
    causes: ClassVar[str] = (
        "Evaluation inputs or labels are preprocessed differently; batch-normalisation statistics "
        "lag; or the evaluation data is of another kind."
    )
    advice: ClassVar[str] = (
        "Evaluate on a batch of training data. If its loss equals the training loss, the data "
        "differs; otherwise the model does: compare train() with eval()."
    )

    ratio: Annotated[float, Meta(gt=1)] = 1.5
    samples: Annotated[int, Meta(ge=1)] = 100

    def reads(self) -> Reads:
        return Reads({"skills": SKILLS, "samples": SAMPLES})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        if step.mode in TRAINING:
            batches = sample_batches(step.tensors["samples"])
            if batches or state:
                state = {**state, "steps": step.mode_step}
            if (batches or "seen" in state) and state.get("new", True):
                seen = add_batches(state.get("seen", {}), batches)
                # The hook looks at each step at first only, or may have stopped.
                whole = seen["steps"] / seen["workers"] >= _WHOLE * step.mode_step
                new = whole and seen["drawn"] <= _PASSES * different_samples(seen)
                state = {**state, "seen": seen if new else {}, "new": new}
        elif step.mode is not Mode.EVAL:
            return state, not_applicable(Reason.NO_TENSOR, f"a step of mode {step.mode.name}")
        if "new" not in state:
            return state, not_applicable(Reason.NO_TENSOR, "no sample hashes of training")
        memories: dict[str, _Memory] = dict(state.get("losses", {}))
        verdicts = []
        here = list(sites(step, step.tensors["skills"]))
        kinds = Counter(site.tensor.kind for site in here)
        for site in here:
            kind = site.tensor.kind
            name = kind[-40:] if kind and kinds[kind] == 1 else site.key  # of heads each its own
            if name not in memories and len(memories) >= MOST_SITES:
                continue
            memory = memories.get(name, {})
            if step.mode is Mode.EVAL:
                memory = self._evaluated(memory, site, state)
                verdicts.append(self._verdict(memory, site.tensor))
            else:
                memory = {**memory, "past": [*memory.get("past", ()), _level(site)][-_SAVES:]}
            memories[name] = memory
        state = {**state, "losses": memories}
        if not verdicts:
            return state, not_applicable(Reason.NO_TENSOR, "no loss that is compared in EVAL")
        return state, worst_verdict(verdicts)

    def _evaluated(self, memory: _Memory, site: LossSite, state: State) -> _Memory:
        past = memory.get("past", ())
        none = memory.get("none", False) or self._none(past, site)
        memory = {**memory, "none": none}
        known = memory.get("bad", 0) > 0 or (state["new"] and state["steps"] >= _STEPS)
        if len(past) < _SAVES or site.rows < self.samples or not known:
            return memory
        now, trained = _level(site), _mean(past)
        ratio = _least_ratio(now, trained)
        if ratio is None:
            return memory
        alike = trained[2] is not None or now[3] <= _LARGER * trained[3]
        larger = ratio >= self.ratio and now[0] > max(loss for loss, *_ in past)
        bad = larger and alike and not none
        counted = memory.get("bad", 0) + 1 if bad else 0
        levels = {"evaluated": rounded(now[0]), "trained": rounded(trained[0])}
        return {**memory, **levels, "ratio": round(ratio, 4), "bad": counted}

    def _none(self, past: Sequence[_Level], site: LossSite) -> bool:
        """Return whether an evaluation has no gap, although training has halved the loss."""
        if len(past) < _LATEST or site.rows < self.samples:
            return False
        trained = _mean(past[-_LATEST:])
        ratio = _least_ratio(_level(site), trained, 1 - _HALF)
        return ratio is not None and ratio < self.ratio

    def _verdict(self, memory: _Memory, tensor: Tensor) -> Verdict:
        if "ratio" not in memory:
            return UNDECIDED
        ratio = memory["ratio"]
        if memory["bad"] < _LOOKS:
            return UNDECIDED if memory["bad"] else measured(HEALTHY, ratio, self.ratio)
        detail = (
            f"{tensor.kind or tensor.name.removesuffix('/skill')}: evaluation loss is "
            f"{memory['evaluated']:.3g}, training loss on samples that were new to the model was "
            f"{memory['trained']:.3g}"
        )
        evidence = {"eval": memory["evaluated"], "train": memory["trained"]}
        found = violation(Reason.ABOVE_THRESHOLD, detail, tensor, **evidence)
        return measured(found, ratio, self.ratio, name="ratio")


def _level(site: LossSite) -> _Level:
    """Return the mean loss of a save, and what the memory keeps beside it."""
    loss = fmean(each for each, *_ in site.losses)
    repaired = fmean(each for _, each, _ in site.losses)
    left = None if site.constant is None else round(min(max(1 - site.constant, -1e3), 1e3), 4)
    with_other_labels = loss / repaired if repaired > 0 else math.inf
    kept = min(max(with_other_labels, -1e3), 1e3)
    return rounded(loss) or 0.0, round(kept, 4), left, site.rows / len(site.losses)


def _mean(past: Any) -> _Level:
    """Return the mean of several saves; relative to a guess's loss if all of them have it."""
    losses, others, left, rows = zip(*past, strict=True)
    share = None if None in left else fmean(left)
    return fmean(losses), fmean(others), share, fmean(rows)


def _least_ratio(now: _Level, trained: _Level, learned: float = _LEARNED) -> float | None:
    """Return the smallest ratio by which an evaluation is worse, over all measures.

    None if training has not ``learned`` that share yet, or if a loss is not above 0.
    """
    pairs = list(zip(now[:3], trained[:3], strict=True))
    shares = [before for _, before in pairs[1:] if before is not None]
    if max(shares) > 1 - learned or now[0] <= 0 or trained[0] <= 0:
        return None
    known = [(a, b) for a, b in pairs if a is not None and b is not None and b > 0]
    return min(min(a / b, 1e6) for a, b in known)

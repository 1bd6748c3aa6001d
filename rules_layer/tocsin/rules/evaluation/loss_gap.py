from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Annotated, Any, ClassVar

from tocsin.model import Reason, Verdict
from tocsin.rules import Meta, Reads, Rule, State, Step, register
from tocsin.rules._train_eval import read_losses
from tocsin.rules._verdicts import measured, violation
from tocsin.rules.evaluation._boosted import TREES, judge_boosted
from tocsin.rules.evaluation._untrained import judge_by_start
from tocsin.rules.skill._looks import before_finding, judge_evaluations, with_streak
from tocsin.rules.skill._pairing import SKILLS, LossSite, Memory, bounds, has_proof, percent, recent

_COMPARISONS = 24  # in TRAIN
_LOOKS = 2  # in a row
_CLEARLY = 0.05  # better, as a share of the loss of a guess
_TOGETHER = 3  # evaluations, of which the median counts
_LOST = 0.2  # of what evaluations had won: they got worse
_BY_HEART = 0.95  # the share by which a training loss is below that of a guess


@register
@dataclass(frozen=True)
class LossGap(Rule):
    """Evaluation loss does not fall although training loss does.

    Fires when training has proven skill and its loss is at least ``known`` below that of the best
    constant prediction, while the best evaluation reached less than ``least`` of that improvement
    (``least_by_heart`` if training loss has nearly vanished). Two consecutive checks must agree,
    after ``samples`` evaluation samples; evaluations that were clearly better and got worse are
    left to Overfit. Without these comparisons, the model's first losses replace the constant
    prediction: training loss must have halved, from the third evaluation and 200 steps on. For
    boosted trees, the first round replaces it: fires when no evaluation is 2 % better, ten rounds
    after the best one, or when the first evaluation loss is five times the training loss.

    Parameters
    ----------
    known: least relative improvement of training loss over a constant prediction.
    least: share of this improvement that evaluations must reach.
    least_by_heart: the same where training loss has nearly vanished.
    samples: evaluation samples before the first check.

    Example: evaluations read images in another order of channels, and their loss is 14 from the
    first one on, while that of training falls to 0.1.
    """

    options: ClassVar[Mapping[str, Any]] = {"resolve": 1}
    causes: ClassVar[str] = (
        "Evaluation inputs or labels are preprocessed differently, or the model differs in "
        "evaluation: other weights, train mode, missing batch-normalisation statistics."
    )
    advice: ClassVar[str] = (
        "Evaluate on a batch of training data. If its loss equals the training loss, the data "
        "differs; otherwise the model does."
    )

    known: Annotated[float, Meta(gt=0, lt=1)] = 0.1
    least: Annotated[float, Meta(gt=0, lt=1)] = 0.25
    least_by_heart: Annotated[float, Meta(gt=0, lt=1)] = 0.4
    samples: Annotated[int, Meta(ge=1)] = 200

    def reads(self) -> Reads:
        losses = read_losses(())
        return Reads({"skills": SKILLS, "losses": losses, "trees": TREES})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        if "boosted" in state or (step.tensors.get("trees") and not step.tensors["skills"]):
            boosted, verdict = judge_boosted(state.get("boosted", {}), step)
            return {"boosted": boosted}, verdict
        compared = state.get("compared", {})
        compared, verdict = judge_evaluations(compared, step, self._looked, self._verdict)
        if any("best" in memory for memory in compared.values()):
            return {"compared": compared}, verdict
        losses, by_start = judge_by_start(
            state.get("losses", {}), step, self.least, self.least_by_heart
        )
        state = {"compared": compared, "losses": losses}
        return state, by_start if losses["losses"]["eval"] else verdict

    def _looked(self, memory: Memory, trained: Memory, site: LossSite) -> Memory:
        """Look at each save of an evaluation.

        ``best`` is the largest share by which an evaluation was better than a guess, ``peak`` the
        largest median of three, ``won`` that of what training wins, and ``bad`` counts the looks in
        a row at which it was too little.
        """
        if site.constant is None:
            return memory
        best = max(memory.get("best", site.constant), round(site.constant, 4))
        last = [*memory.get("last", ()), round(site.constant, 4)][-_TOGETHER:]
        peak = max(memory.get("peak", 0.0), median(last))
        memory = {**memory, "best": best, "now": round(site.constant, 4)}
        memory |= {"last": last, "peak": peak}
        half = recent(trained, 0.5)
        train = bounds(half)
        if train is None or trained["n"] < _COMPARISONS or memory["rows"] < self.samples:
            return memory
        learned = has_proof(half) and trained["better"] >= self.known
        won = best / max(trained["better"], self.known)
        memorised = trained["better"] >= _BY_HEART and not has_proof(recent(memory, 0.5))
        least = self.least_by_heart if memorised else self.least
        overfits = peak >= _CLEARLY and median(last) <= (1 - _LOST) * peak
        bad = learned and won < least and not overfits
        good = overfits or won >= least
        streak = with_streak(memory, "bad", bad=bad, good=good, enough=_LOOKS)
        return {**memory, **streak, "won": round(won, 4), "least": least}

    def _verdict(self, memory: Memory, trained: Memory, site: LossSite) -> Verdict:
        least = memory.get("least", self.least)  # an earlier version did not keep it
        if early := before_finding(memory, "bad", _LOOKS, "won", least):
            return early
        name, now = site.tensor.kind or site.tensor.name, memory["now"]
        best, beside = memory["best"], f"{percent(abs(now))} {'below' if now > 0 else 'above'} it"
        peak = ", and was never better"
        if best > max(now, 0) + _CLEARLY:
            peak = f", and was at best {percent(best)} below"
        detail = (
            f"{name}: training loss is {percent(trained['better'])} below that of a constant "
            f"prediction; evaluation loss is {beside}{peak}"
        )
        evidence = {"eval": now, "train": trained["better"], "samples": memory["rows"]}
        found = violation(Reason.ABOVE_THRESHOLD, detail, site.tensor, **evidence)
        return measured(found, memory["won"], least, "below", "won")

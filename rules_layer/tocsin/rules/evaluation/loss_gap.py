from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Annotated, Any, ClassVar

from tocsin.model import Reason, Verdict
from tocsin.rules import Meta, Reads, Rule, State, Step, register
from tocsin.rules._advice import SIMPLER_TREES
from tocsin.rules._loss_names import read_losses
from tocsin.rules._verdicts import measured, violation
from tocsin.rules.evaluation._boosted import TREES, judge_boosted
from tocsin.rules.evaluation._untrained import judge_by_start
from tocsin.rules.skill._looks import before_finding, judge_evaluations, with_streak
from tocsin.rules.skill._pairing import SKILLS, LossSite, Memory, bounds, has_proof, percent, recent

_COMPARISONS = 24  # in TRAIN
_LOOKS = 2  # in a row
_CLEARLY = 0.05  # clear improvement, as a fraction of the loss of a constant prediction
_TOGETHER = 3  # evaluations whose median counts
_LOST = 0.2  # of the improvement of evaluations: they got worse
_ROSE = 1.1  # times the best evaluation loss: a smaller rise is no overfitting
_BY_HEART = 0.95  # fraction by which training loss is below that of a constant prediction


@register
@dataclass(frozen=True)
class LossGap(Rule):
    """Evaluation loss does not fall although training loss does.

    Fires when training loss beats the best constant prediction by ``known`` and the best evaluation
    reaches less than ``least`` of that improvement, in two consecutive checks. Overfit reports
    evaluations that improved and then got worse by a tenth. Where losses cannot be compared, the
    first losses replace the constant prediction; for boosted trees, the first round does.

    Parameters
    ----------
    known: relative improvement of training loss over a constant prediction, from which to check.
    least: share of this improvement that evaluation loss must reach.
    least_by_heart: the same once training loss is nearly 0, so the data is memorised.
    samples: evaluation samples before the first check.

    Example: evaluation swaps the colour channels. Training loss falls to 0.1, evaluation loss stays
    at 14.
    """

    options: ClassVar[Mapping[str, Any]] = {"resolve": 1}
    causes: ClassVar[str] = (
        "Evaluation data is preprocessed differently, or the evaluated model differs: other "
        "weights, train mode, or missing batch-norm statistics."
    )
    advice: ClassVar[str] = (
        "Evaluate on a training batch. If its loss equals the training loss, the data differs; "
        "otherwise the model differs."
    )
    advice_for_trees: ClassVar[str] = SIMPLER_TREES

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
        """Check each save of an evaluation.

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
        level = median(last)
        overfits = peak >= _CLEARLY and level <= (1 - _LOST) * peak
        overfits = overfits and 1 - level > _ROSE * (1 - peak)
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

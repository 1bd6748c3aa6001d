from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Annotated, Any, ClassVar

from tocsin.model import Reason, Verdict
from tocsin.rules import (
    HEALTHY,
    UNDECIDED,
    Meta,
    Reads,
    Rule,
    State,
    Step,
    measured,
    register,
    violation,
)
from tocsin.rules._train_eval import read_losses
from tocsin.rules.evaluation._boosted import TREES, judge_boosted
from tocsin.rules.evaluation._columns import COLUMNS, trained_rows
from tocsin.rules.evaluation._untrained import judge_by_start
from tocsin.rules.skill._looks import judge_evaluations, with_streak
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
    """Evaluations never saw what training learned: it helps them little, or not at all.

    A guess is the best constant prediction. Compares by how much the loss is below that of a guess
    in TRAIN and in EVAL, for each loss function. Fires when training is proved to have skill, and
    its loss is below that of a guess by at least ``known``, while the best evaluation since the
    first one has won less than ``least`` of that, in two looks in a row and after ``samples``
    samples. Where all but 5 % of the loss is gone in TRAIN, perhaps memorised, they must have won
    ``least_by_heart``, unless predictions fit their labels better than shuffled ones: more may not
    be reachable. Evaluations that were better than a guess by 5 %, and have lost a fifth of it,
    overfit: Overfit judges that.

    In runs without comparisons, as those of other frameworks and tools, and for losses whose best
    constant is unknown, as of pictures, the guess is the model before it was trained: that of the
    first three saves, in the first 40 steps, before the first evaluation. Fires when the training
    loss has halved, and no evaluation has won more than a seventh of that, or two fifths if less
    than 5 % of it is left, or four fifths if it once was a hundred-millionth; or when none was
    lower by 2 %, and they get no better, unless the training loss rises as well, as a divergence
    from a prior does. From the third evaluation and 200 steps on, in two looks in a row.
    Evaluations that fell to half of the first do not fire.

    In boosted trees the first round takes the place of that model. Fires when no later one is
    better by 2 %, by any loss of an evaluation, ten rounds after the best one (thirty for a share
    of errors) or after a hundred; or none by 10 % while the same loss has fallen by 90 % in TRAIN
    (by 25 % and 99 %, and at once, if a hundred rows or fewer are trained on); or if all are five
    times above that of TRAIN after the first round.

    Parameters
    ----------
    known: the share by which the training loss is below that of a guess.
    least: the share of this that evaluations must have won.
    least_by_heart: the same where training has hardly any loss left.
    samples: in EVAL before the first look.

    Example: evaluations read images in another order of channels, and their loss is 14 from the
    first one on, while that of training falls to 0.1.
    """

    options: ClassVar[Mapping[str, Any]] = {"resolve": 1}
    causes: ClassVar[str] = (
        "The inputs or labels of the evaluation are prepared otherwise than those of training, or "
        "the model is another one there: other weights, train mode, statistics that are not kept."
    )
    advice: ClassVar[str] = (
        "Evaluate on a batch of the training data: if its loss is as in training, the data "
        "differs, else the model does."
    )

    known: Annotated[float, Meta(gt=0, lt=1)] = 0.1
    least: Annotated[float, Meta(gt=0, lt=1)] = 0.25
    least_by_heart: Annotated[float, Meta(gt=0, lt=1)] = 0.4
    samples: Annotated[int, Meta(ge=1)] = 200

    def reads(self) -> Reads:
        losses = read_losses(())
        return Reads({"skills": SKILLS, "losses": losses, "trees": TREES, "columns": COLUMNS})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        if "boosted" in state or (step.tensors.get("trees") and not step.tensors["skills"]):
            rows = state.get("rows") or trained_rows(step.tensors.get("columns", ()))
            boosted, verdict = judge_boosted(state.get("boosted", {}), step, rows)
            return {"boosted": boosted, "rows": rows}, verdict
        compared = state.get("compared", {})
        compared, verdict = judge_evaluations(compared, step, self._looked, self._verdict)
        if any("best" in memory for memory in compared.values()):
            return {"compared": compared}, verdict
        losses, by_start = judge_by_start(state.get("losses", {}), step)
        state = {"compared": compared, "losses": losses}
        return state, by_start if losses["losses"]["eval"] else verdict

    def _looked(self, memory: Memory, trained: Memory, site: LossSite) -> Memory:
        """Looks at each save of an evaluation.

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
        if "bad" not in memory:
            return UNDECIDED
        least = memory.get("least", self.least)  # an earlier version did not keep it
        if memory["bad"] < _LOOKS:
            return measured(HEALTHY, memory["won"], least, "below")
        name, now = site.tensor.kind or site.tensor.name, memory["now"]
        beside = f"{percent(now)} below" if now > 0 else f"{percent(-now)} above"
        best = memory["best"]
        better = "better" if best <= max(now, 0) + _CLEARLY else f"more than {percent(best)} below"
        detail = (
            f"the loss by {name} is {percent(trained['better'])} below that of a constant guess in "
            f"TRAIN, and {beside} it in EVAL, and was never {better} there"
        )
        evidence = {"eval": now, "train": trained["better"], "samples": memory["rows"]}
        found = violation(Reason.ABOVE_THRESHOLD, detail, site.tensor, **evidence)
        return measured(found, memory["won"], least, "below", "won")

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from tocsin.model import Reason, Verdict
from tocsin.rules import Meta, Reads, Rule, State, Step, register
from tocsin.rules._verdicts import measured, violation
from tocsin.rules.skill._looks import before_finding, judge_evaluations, with_streak
from tocsin.rules.skill._pairing import SKILLS, LossSite, Memory, bounds, has_proof, percent, recent

_COMPARISONS = 24  # in TRAIN
_LOOKS = 2  # in a row
_USELESS = 4  # evaluations in a row that are no better than a constant prediction
_CONTRADICTED = "; shuffled labels fit better: classes are numbered or ordered differently there"


@register
@dataclass(frozen=True)
class Memorises(Rule):
    """The model predicts the labels of the training data, but not those of the evaluation data.

    The skill is that of NoSkill: by how much the loss is lower for the true pairs of predictions
    and labels than for shuffled ones. Fires when over the last half of the saves training has a
    skill of at least ``known`` and evaluations one below ``least_skill``, both with 99.9 %
    confidence, in two consecutive checks. Four consecutive evaluations that are no better than a
    constant prediction are also enough. The finding says so if shuffled evaluation labels fit
    better than the true ones: classes are then numbered differently. Waits for ``patience``
    training steps and ``samples`` evaluation samples. Resolved when evaluations gain skill: some
    models generalise late.

    Parameters
    ----------
    least_skill: evaluations below this skill have learned nothing.
    known: smallest skill in training at which the rule compares.
    patience: training steps before the first check.
    samples: evaluation samples before the first check.

    Example: with shuffled labels the training loss falls to 0.1, and evaluations stay at chance.
    """

    options: ClassVar[Mapping[str, Any]] = {"resolve": 1}
    causes: ClassVar[str] = (
        "Labels belong to other samples, in training or in the evaluation; the model has too many "
        "parameters for so few samples; or evaluation inputs are preprocessed differently."
    )
    advice: ClassVar[str] = (
        "Check a few samples with their labels in both sets, and that the same code prepares both."
        " Then use more data, augmentation or a smaller model."
    )

    least_skill: Annotated[float, Meta(gt=0, lt=1)] = 0.05
    known: Annotated[float, Meta(gt=0, lt=1)] = 0.1
    patience: Annotated[int, Meta(ge=1)] = 200
    samples: Annotated[int, Meta(ge=1)] = 200

    def reads(self) -> Reads:
        return Reads({"skills": SKILLS})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        return judge_evaluations(state, step, self._looked, self._verdict)

    def _looked(self, memory: Memory, trained: Memory, site: LossSite) -> Memory:
        """Judge the evaluations if there are enough new comparisons.

        ``low`` counts the looks in a row without skill; ``next`` is the number of comparisons at
        the next look; ``useless`` counts the saves in a row at which a constant guess was better.
        """
        if site.constant is not None:
            useless = memory.get("useless", 0) + 1 if site.constant < 0 else 0
            memory = {**memory, "useless": useless}
        early = trained["now"] - trained["since"] < self.patience or trained["n"] < _COMPARISONS
        if early or memory["rows"] < self.samples or memory["n"] < memory.get("next", 0):
            return memory
        half = recent(trained, 0.5)
        train, evaluated = bounds(half), bounds(recent(memory, 0.5))
        if train is None or evaluated is None:
            return memory
        learned = train.low > self.known and has_proof(half)
        surely = evaluated.high < self.least_skill or memory.get("useless", 0) >= _USELESS
        low = learned and surely and evaluated.mean < self.least_skill
        some = evaluated.mean >= self.least_skill
        after = max(memory["n"] + 1, round(1.25 * memory["n"]))
        skills = {"skill": round(evaluated.mean, 4), "trained": round(train.mean, 4)}
        skills |= {"wrong": evaluated.high < 0}
        streak = with_streak(memory, "low", bad=low, good=some, enough=_LOOKS)
        return {**memory, **skills, **streak, "next": after}

    def _verdict(self, memory: Memory, _: Memory, site: LossSite) -> Verdict:
        if early := before_finding(memory, "low", _LOOKS, "skill", self.least_skill):
            return early
        skill, known = memory["skill"], memory["trained"]
        detail = (
            f"{site.tensor.kind or site.tensor.name}: skill is {percent(known)} in training, but "
            f"{percent(skill)} in evaluations ({memory['rows']} samples)"
            f"{_CONTRADICTED if memory.get('wrong') else ''}"
        )
        evidence = {"skill": skill, "trained": known, "samples": memory["rows"]}
        found = violation(Reason.BELOW_THRESHOLD, detail, site.tensor, **evidence)
        return measured(found, skill, self.least_skill, "below")

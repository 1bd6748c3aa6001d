from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
from tocsin.rules.skill._looks import judge_evaluations, with_streak
from tocsin.rules.skill._pairing import (
    SKILLS,
    LossSite,
    Memory,
    bounds,
    has_proof,
    percent,
    recent,
)

_COMPARISONS = 24  # in TRAIN
_LOOKS = 2  # in a row
_USELESS = 4  # evaluations in a row that are no better than a constant guess


@register
@dataclass(frozen=True)
class Memorises(Rule):
    """The model knows the labels of the training data and none of the evaluation data.

    The skill is that of NoSkill: by how much the loss is lower for the true pairs of predictions
    and labels. Compares TRAIN with EVAL for each loss function, over the last half of the
    saves of each. Fires when training is proved to have at least ``known`` and evaluations
    have less than ``least_skill``, both with 99.9 % confidence, in two looks in a row, after
    ``patience`` training steps and ``samples`` samples in EVAL. Four evaluations in a row none of
    which is better than a constant guess are confidence, too. When evaluations have more, it is
    resolved: some models generalise late.

    Parameters
    ----------
    least_skill: too little in EVAL.
    known: the skill in TRAIN from which on it is compared.
    patience: training steps before the first look.
    samples: in EVAL before the first look.

    Example: with shuffled labels the training loss falls to 0.1, and evaluations stay at chance.
    """

    options: ClassVar[Mapping[str, Any]] = {"resolve": 1}
    causes: ClassVar[str] = (
        "Labels belong to other samples, in training or in the evaluation; there are too few "
        "samples for so many parameters; or the inputs of the evaluation are prepared otherwise."
    )
    advice: ClassVar[str] = (
        "Check a few samples with their labels in both sets, and that both are prepared by the "
        "same code. Then use more data, augmentation or a smaller model."
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
        """Looks at the evaluations if there are enough new comparisons.

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
        streak = with_streak(memory, "low", bad=low, good=some, enough=_LOOKS)
        return {**memory, **skills, **streak, "next": after}

    def _verdict(self, memory: Memory, _: Memory, site: LossSite) -> Verdict:
        if "low" not in memory:
            return UNDECIDED
        if memory["low"] < _LOOKS:
            if "skill" not in memory:
                return HEALTHY
            return measured(HEALTHY, memory["skill"], self.least_skill, "below")
        skill, known = memory["skill"], memory["trained"]
        detail = (
            f"the skill by {site.tensor.kind or site.tensor.name} is {percent(known)} in TRAIN and "
            f"{percent(skill)} in EVAL, after {memory['rows']} samples"
        )
        evidence = {"skill": skill, "trained": known, "samples": memory["rows"]}
        found = violation(Reason.BELOW_THRESHOLD, detail, site.tensor, **evidence)
        return measured(found, skill, self.least_skill, "below")

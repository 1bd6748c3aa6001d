from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from tocsin.model import Reason, Verdict
from tocsin.rules import Meta, Reads, Rule, State, Step, register
from tocsin.rules._verdicts import measured, violation
from tocsin.rules.skill._looks import before_finding, judge_training_sites, with_streak
from tocsin.rules.skill._pairing import SKILLS, LossSite, Memory, bounds, percent, recent

_COMPARISONS = 12  # comparisons that are judged together, at least
_WINDOW = 0.125  # of all saves
_LOOKS = 3  # in a row


@register
@dataclass(frozen=True)
class SkillLost(Rule):
    """The model has lost most of the skill that it had.

    The skill is that of NoSkill: by how much the loss is lower for the true pairs of predictions
    and labels than for shuffled ones. Follows the last eighth of all saves, with at least 12
    comparisons. Fires when three consecutive checks find, with 99.9 % confidence, that the skill is
    below the fraction ``kept`` of its best lower bound, and that best was above ``least_skill``.
    Half of the best resolves it.

    Parameters
    ----------
    least_skill: a model that never had more skill cannot lose it.
    kept: largest share of the best skill that is left.

    Example: a learning rate that jumps by a factor of 1000 at half-time takes the skill from 80 %
    to 0.
    """

    options: ClassVar[Mapping[str, Any]] = {"resolve": 1}
    causes: ClassVar[str] = (
        "The learning rate became too high, gradients exploded or were not cleared, weights were "
        "loaded or initialised again, or the labels of the later data do not belong to its inputs."
    )
    advice: ClassVar[str] = (
        "Go back to the last model checkpoint before the loss rose; lower the learning rate or "
        "clip gradients, and look at the batches of the steps at which it began."
    )

    least_skill: Annotated[float, Meta(gt=0, lt=1)] = 0.1
    kept: Annotated[float, Meta(gt=0, lt=1)] = 0.25

    def reads(self) -> Reads:
        return Reads({"skills": SKILLS})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        return judge_training_sites(state, step, self._looked, self._verdict)

    def _looked(self, memory: Memory, _: int) -> Memory:
        """Judge the latest comparisons if there are enough new ones.

        ``best`` is the best lower bound, ``lost`` counts the looks in a row with little of it, and
        ``next`` is the number of comparisons at the next look.
        """
        if memory["n"] < memory.get("next", 2 * _COMPARISONS):
            return memory
        found = bounds(recent(memory, _WINDOW, _COMPARISONS))
        if found is None:
            return memory
        best = max(memory.get("best", 0.0), round(found.low, 4))
        lost = best > self.least_skill and found.high < self.kept * best
        regained = found.mean >= best / 2
        streak = with_streak(memory, "lost", bad=lost, good=regained, enough=_LOOKS)
        after = memory["n"] + max(4, memory["n"] // 24)
        return {**memory, **streak, "best": best, "next": after, "skill": round(found.mean, 4)}

    def _verdict(self, memory: Memory, site: LossSite) -> Verdict:
        limit = self.kept * memory.get("best", 0.0)
        if early := before_finding(memory, "lost", _LOOKS, "skill", limit):
            return early
        best, skill = memory["best"], memory["skill"]
        detail = (
            f"{site.tensor.kind or site.tensor.name}: predictions fit their labels hardly better "
            f"than shuffled ones: skill is {percent(skill)}, its best was {percent(best)}"
        )
        evidence = {"skill": skill, "best": best, "comparisons": memory["n"]}
        found = violation(Reason.BELOW_THRESHOLD, detail, site.tensor, **evidence)
        return measured(found, skill, limit, "below")

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from tocsin.model import Reason, Verdict
from tocsin.rules import Meta, Reads, Rule, State, Step, register
from tocsin.rules._series import LOSSES
from tocsin.rules._verdicts import measured, violation
from tocsin.rules.skill._looks import before_finding, judge_training_sites, with_streak
from tocsin.rules.skill._pairing import (
    SKILLS,
    LossSite,
    Memory,
    bounds,
    has_proof,
    percent,
    recent,
    sites,
)

_COMPARISONS = 24  # before the first look
_MANY_COMPARISONS = 100  # comparisons without a sign of skill, after which low skill is enough
_LOOKS = 2  # in a row
_OUTWEIGHED, _MOST = 0.2, 0.5  # shares of the minimised loss, at first and at last


@register
@dataclass(frozen=True)
class NoSkill(Rule):
    """Predictions are no better with the right labels than with shuffled ones.

    The hook computes each loss a second time with predictions and labels paired differently. The
    skill is the share by which the true pairs have the lower loss: 0 if predictions do not depend
    on the sample, for any kind of loss. Fires when two consecutive checks of the last half of all
    saves find no proof of learning, and a skill below ``least_skill`` with 99.9 % confidence; or
    below ``most_skill`` after 100 comparisons without any sign of learning. Checks after
    ``patience`` steps, and then each time their number has grown by a quarter. Proof of learning
    resolves the rule: some models start late. The finding says so if other terms outweigh this
    loss: at first they made up more than 80 % of the minimised loss, and now less than half.

    Parameters
    ----------
    least_skill: the skill must be below this with 99.9 % confidence.
    most_skill: the same limit while the run has never shown skill.
    patience: training steps before the first check.

    Example: the labels are shuffled, and after 250 steps the skill is 0.1 %.
    """

    options: ClassVar[Mapping[str, Any]] = {"resolve": 1}
    causes: ClassVar[str] = (
        "Inputs have the wrong labels, the inputs are damaged or do not determine the labels, or "
        "the shapes of predictions and labels do not match. Or another term of the loss outweighs "
        "this one, the learning rate is far too low or too high, or the network is dead."
    )
    advice: ClassVar[str] = (
        "Check a few samples with their labels as the model receives them, then whether the model "
        "can overfit ten of them. If it can, the cause is the data; if not, look at the loss, the "
        "learning rate and the gradients."
    )

    least_skill: Annotated[float, Meta(gt=0, lt=1)] = 0.01
    most_skill: Annotated[float, Meta(gt=0, lt=1)] = 0.05
    patience: Annotated[int, Meta(ge=1)] = 200

    def reads(self) -> Reads:
        return Reads({"skills": SKILLS, "losses": LOSSES}, needs=("skills",))

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        state, verdict = judge_training_sites(state, step, self._looked, self._verdict)
        return _with_shares(state, step), verdict

    def _looked(self, memory: Memory, now: int) -> Memory:
        """Judge the comparisons so far if a check is due.

        ``low`` counts the looks in a row without skill, and ``next`` is when to look again.
        """
        spent = now - memory["since"]
        if spent < memory.get("next", self.patience) or memory["n"] < _COMPARISONS:
            return memory
        half = recent(memory, 0.5)
        found = bounds(half)
        if found is None:
            return memory
        never = memory["proved"] is None and memory["n"] >= _MANY_COMPARISONS
        too_low = found.high < self.least_skill or (
            never and found.high < self.most_skill and found.mean < 2 * found.error
        )
        proof = has_proof(half)
        streak = with_streak(memory, "low", bad=too_low and not proof, good=proof, enough=_LOOKS)
        after = spent * (1.25 if streak["low"] < _LOOKS else 1.05)
        return {**memory, **streak, "next": round(after) + 1, "skill": round(found.mean, 4)}

    def _verdict(self, memory: Memory, site: LossSite) -> Verdict:
        if early := before_finding(memory, "low", _LOOKS, "skill", self.least_skill):
            return early
        skill = memory["skill"]
        name = site.tensor.kind or site.tensor.name
        detail = (
            f"{name}: predictions fit their labels no better than shuffled ones: skill "
            f"{percent(skill)} in the last half of the run ({memory['n']} comparisons)"
        )
        if site.constant is not None:
            better = f"{percent(site.constant)} below" if site.constant > 0 else "not below"
            detail += f"; the loss is {better} that of a constant prediction"
        at_first, now = memory.get("shares", (1.0, 1.0))
        if at_first < _OUTWEIGHED and now > _MOST:
            rest = f"from {percent(1 - at_first)} of it to {percent(max(0.0, 1 - now))}"
            detail += f"; other terms of the minimised loss fell {rest} instead: lower their weight"
        evidence = {"skill": skill, "comparisons": memory["n"]}
        found = violation(Reason.BELOW_THRESHOLD, detail, site.tensor, **evidence)
        return measured(found, skill, self.least_skill, "below")


def _with_shares(state: State, step: Step) -> State:
    """Remember which share of the minimised loss each compared one has, at first and now."""
    total = max((each.summary.mean or 0.0 for each in step.tensors.get("losses", ())), default=0.0)
    if total <= 0:
        return state
    for site in sites(step, step.tensors["skills"]):
        if memory := state.get(site.key):
            share = round(site.losses[-1][0] / total, 3)
            first = memory.get("shares", (share,))[0]
            state = {**state, site.key: {**memory, "shares": (first, share)}}
    return state

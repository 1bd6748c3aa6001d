from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Annotated, Any, ClassVar

from tocsin.model import Reason, Verdict
from tocsin.rules import Meta, Reads, Rule, State, Step, register
from tocsin.rules._curve import curve, with_cost
from tocsin.rules._kinds import kind_of_loss
from tocsin.rules._verdicts import (
    HEALTHY,
    UNDECIDED,
    measured,
    not_applicable,
    violation,
    worst_verdict,
)
from tocsin.rules._window import rounded
from tocsin.rules.gradients._updates import (
    RATE_READS,
    followed,
    missing_inputs,
    rate_to_try,
    total_norm,
)
from tocsin.rules.skill._pairing import SKILLS, added, sites

_DECAYED = 0.1  # of the largest update so far: the schedule has passed its peak
_STEPS = 50  # of training: a warm-up begins with small updates
_COURSE = 5  # losses at the start and at the end, which are compared
_HARDLY = 0.3  # of the limit for slow updates: what may even be proved to learn a little
_ENOUGH = 1 / 3  # of the loss, by all steps so far: three times the rate would be no other
_GREW = 1.1  # from the first half of these saves to the last: the schedule warms up


@register
@dataclass(frozen=True)
class UpdateTooSmall(Rule):
    """Updates are far too small for the weights to learn anything.

    Measures the update of one step by two ratios: the median over the weights of |Δw| / |w|, and
    |g| |Δw| / loss, the share by which one step can reduce the loss, to first order. Fires after 50
    steps when the first was below ``relative``, the second below ``gain``, or both below ``slow``,
    in ``saves`` consecutive saves, unless comparisons of losses prove that the model learns. If
    both were below 0.3 ``slow`` it fires even then, unless the loss has clearly left its start and
    most weights change. Updates below ``slow`` are enough if all steps so far can remove a third of
    the loss, to first order. In adversarial training only the first ratio counts: opponents in
    balance have nothing to gain.
    Ignores updates below a tenth of the largest so far, as at the end of a schedule, and updates
    that grow, as in warm-up. Names the limit of gradient clipping if the norm of all gradients is
    always the same round number. FrozenParameters judges weights that do not change.

    Parameters
    ----------
    relative: smallest |Δw| / |w| of one step.
    gain: smallest share by which one step can reduce the loss.
    slow: limit of both when nothing proves that the model learns.
    saves: number of consecutive saves with small updates.

    Example: Adam at a learning rate of 3e-8 changes each weight by a millionth of its size.
    """

    options: ClassVar[Mapping[str, Any]] = {"resolve": 5}
    causes: ClassVar[str] = (
        "The learning rate is orders of magnitude too low: a wrong unit or exponent, or a schedule"
        " that starts at its end. Or gradients are clipped to a tiny norm, or divided by a loss "
        "scale and never unscaled."
    )
    advice: ClassVar[str] = (
        "If gradients are clipped, raise the limit: 1 is usual, and with a GradScaler unscale_() "
        "comes before. Otherwise multiply the learning rate by ten until the loss falls, and check "
        "which values the schedule and the gradient scaler really set."
    )

    relative: Annotated[float, Meta(gt=0)] = 1e-6
    gain: Annotated[float, Meta(gt=0)] = 1e-5
    slow: Annotated[float, Meta(gt=0)] = 1e-3
    saves: Annotated[int, Meta(ge=2)] = 8

    def reads(self) -> Reads:
        return replace(RATE_READS, tensors={**RATE_READS.tensors, "skills": SKILLS})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        compared = list(sites(step, step.tensors["skills"]))[:1]
        if lacking := missing_inputs(step):
            return state, not_applicable(Reason.NO_TENSOR, lacking)
        state, update, loss = followed(state, step)
        for site in compared:
            state |= {"skill": added(state.get("skill", {}), site, step.mode_step, most=4)}
        if loss is not None:
            low, high = state.get("losses", (loss, loss))
            state |= {"losses": (min(low, loss), max(high, loss))}
            state |= {"course": with_cost(state.get("course", {}), loss, _COURSE, _COURSE)}
        if update is None or loss is None or not update.pace:
            return state, UNDECIDED
        level = _level(loss, *state["losses"])
        relative, gain = update.relative / update.steps, update.gain(level, update.steps)
        largest = max(state.get("largest", 0.0), relative)
        effect = max(relative, gain)
        effect = effect if effect < 1 else 1.0  # also of NaN
        slow = effect < self.slow and not gain * step.mode_step >= _ENOUGH
        counts = not any(kind_of_loss(each) == "adversarial" for each in step.tensors["losses"])
        small = (counts and (slow or gain < self.gain)) or relative < self.relative
        due = small and step.mode_step >= _STEPS
        now = rounded(relative), rounded(effect)
        past = [*state.get("effects", ()), now][-self.saves :] if due else []
        norms = [*state.get("norms", ()), rounded(total_norm(step, "gradients"), 4)][-self.saves :]
        state |= {"largest": rounded(largest), "effects": past, "norms": norms}
        healthy = worst_verdict(
            [
                measured(HEALTHY, relative, self.relative, "below"),
                measured(HEALTHY, gain, self.gain, "below"),
            ]
        )
        falls = relative >= self.relative and curve(state["course"]).left_its_start
        fast = falls or not all(effect < _HARDLY * self.slow for _, effect in past)
        learns = fast and state.get("skill", {}).get("proved")
        changes = relative < _DECAYED * largest or _grew([each for each, _ in past])
        if learns or not small:
            return state, healthy
        if len(past) < self.saves or changes:
            return state, UNDECIDED  # not healthy: that would take an alarm back
        detail = (
            f"one step changes {update.weight.name} by {relative:.2g} of its size and reduces the "
            f"loss by at most {gain:.2g} of its value, in {len(past)} consecutive saves"
            f"{_clipped(state['norms'], self.saves) or rate_to_try(step, gain * step.mode_step)}"
        )
        evidence = {"relative_update": relative, "gain": gain}
        found = violation(Reason.CHANGED_TOO_LITTLE, detail, update.weight, **evidence)
        if all(each < self.slow for _, each in past):
            return state, measured(found, effect, self.slow, "below", "effect")
        return state, measured(found, gain, self.gain, "below", "gain")


def _level(loss: float, low: float, high: float) -> float:
    """The loss, or the range of all losses if they had both signs: then 0 is not a reference."""
    return high - low if low < 0 < high else loss


def _clipped(norms: Sequence[float | None], saves: int) -> str:
    """Return the limit to which gradients are clipped; empty unless their norm is the same round
    number in all saves."""
    limit = norms[0]
    if len(norms) < saves or not limit or {*norms} != {float(f"{limit:.1g}")}:
        return ""
    return f"; the norm of all gradients is always {limit:g}: they are clipped, raise the limit"


def _grew(past: Sequence[float]) -> bool:
    """Return whether updates grow, as in a warm-up."""
    if len(past) < 2:
        return False
    half = len(past) // 2
    return median(past[half:]) > _GREW * median(past[:half])

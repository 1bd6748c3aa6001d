"""Relations between findings: what explains what, and the order in which they are shown, cause
first.

``EXPLAINS`` is the only place that says so. Checks, reports, e-mails, webhooks and statuses show
what ``causes_first`` returns; what a finding explains is folded below it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from tocsin.contracts import FAMILIES, find, id_and_place
from tocsin.model import Severity

_MOST_SEVERE_FIRST = tuple(reversed(Severity))
_CONTRACTS = "BrokenContract"


@dataclass(frozen=True)
class Finding:
    """A rule that fires.

    name: of the rule in the configuration.
    rule: the name of its class.
    step: of the first violation; None if it is not known.
    tensor: the tensor of the violation, which names a broken contract.
    """

    name: str
    rule: str
    severity: Severity = Severity.WARNING
    step: int | None = None
    tensor: str | None = None


@dataclass(frozen=True)
class Lead:
    """A finding that no other finding explains, with the findings that it explains."""

    finding: Finding
    explains: tuple[Finding, ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        return (self.finding, *self.explains)

    @property
    def severity(self) -> Severity:
        """The worst severity of the finding and of those it explains."""
        return min((each.severity for each in self.findings), key=_MOST_SEVERE_FIRST.index)

    @property
    def alarms(self) -> bool:
        return self.severity is not Severity.INFO

    @property
    def likely(self) -> bool:
        """Return whether the finding is no alarm itself, but the likely cause of one."""
        return self.alarms and self.finding.severity is Severity.INFO


@dataclass(frozen=True)
class Explanation:
    """Findings that explain others, and why.

    since: they explain only what began no earlier than they did.
    """

    causes: tuple[str, ...]
    effects: tuple[str, ...]
    reason: str
    since: bool = False


_SKILL = ("NoSkill", "NoBetterThanGuessing", "Underfitting", "ConstantOutput", "SkillLost")
_COLLAPSE = ("Collapse", "Confusion")
_STUCK = ("LossNotDecreasing",)
_RISING = ("LossDiverging", "LossWorse", "LossSpike", "LossOscillating")
_NUMBERS = ("ExplodingTensor", "GradientExplosion")
_SATURATION = ("TanhSaturation", "SigmoidSaturation", "SaturatedActivation", "DeadRelu")
_NO_GRADIENT = ("VanishingGradient", "NoGradient")
_WEIGHTS = ("UnchangedTensor", "FrozenParameters", "AllZero", "TensorVariance")
_RATES = ("LearningRateTooLarge", "UpdateTooLarge", "WeightUpdateRatio")
_SLOW = ("UpdateTooSmall", "LearningRateTooSmall")
_TOO_GOOD = ("LossTooGoodTooSoon",)
_OVERFITTING = ("Overfit", "Overtraining")
_EVALUATION = ("LossGap", "FirstEpochGap", "Memorises", "EvaluationUnchanged", *_OVERFITTING)
_LOSSES = (*_SKILL, *_COLLAPSE, *_STUCK, *_RISING)
_NETWORK = (*_NUMBERS, *_SATURATION, *_NO_GRADIENT, "DeadNetwork")

EXPLAINS = (
    Explanation(
        ("contract: Losses", "contract: Inputs, labels and axes"),
        (*_LOSSES, *_NETWORK, *_RATES, *_SLOW, *_EVALUATION, *_TOO_GOOD),
        "a wrong loss or wrong data falsifies every gradient and evaluation",
    ),
    Explanation(
        ("contract: Gradients, optimizers and schedulers",),
        (*_LOSSES, *_NETWORK, *_RATES, *_SLOW, *_WEIGHTS, *_OVERFITTING),
        "updates that are missing or wrong leave weights untrained, or let them diverge",
    ),
    Explanation(
        ("contract: Actions, target networks and opponents",),
        (*_LOSSES, *_NUMBERS, *_RATES),
        "a wrong target lets the loss and the policy drift",
    ),
    Explanation(
        ("contract: Train and eval mode",),
        (*_SKILL, *_COLLAPSE, *_STUCK, *_EVALUATION),
        "dropout and batch normalisation behave differently in the two modes",
    ),
    Explanation(
        ("contract: Boosted trees",),
        (*_SKILL, *_STUCK, *_EVALUATION, "UnusedFeatures"),
        "trees that cannot grow cannot learn",
    ),
    Explanation(
        ("NonFiniteData",),
        (*_LOSSES, *_NETWORK, *_RATES, *_WEIGHTS, *_EVALUATION, *_TOO_GOOD),
        "NaN in the data spreads to the loss, the gradients and the weights",
    ),
    Explanation(
        ("TreeDepth",),
        _EVALUATION,
        "trees that deep fit single samples",
    ),
    Explanation(
        ("TrainEvalInputs",),
        (*_EVALUATION, "NotNormalizedData"),
        "inputs on a different scale give a different loss",
    ),
    Explanation(
        ("TrainEvalOverlap",),
        _TOO_GOOD,
        "evaluating on the training data hides overfitting",
    ),
    Explanation(
        ("UnshuffledData",),
        ("LossOscillating", "LossSpike", "SkillLost", *_COLLAPSE),
        "batches of one class pull the model towards that class",
    ),
    Explanation(
        ("WorkerLosses",),
        ("WorkersDisagree",),
        "a worker with different data computes different gradients",
    ),
    Explanation(
        ("UpdateTooLarge",),
        ("LearningRateTooLarge", "WeightUpdateRatio"),
        "an update that overshoots is large for its weights",
    ),
    Explanation(
        ("LearningRateTooLarge",),
        ("WeightUpdateRatio",),
        "a large rate makes updates large for their weights",
    ),
    Explanation(
        ("LearningRateSchedule",),
        ("LossSpike", "LossWorse", "LossNotDecreasing", "UnchangedTensor"),
        "the loss follows a jump of the rate, and stalls when the rate vanishes",
        since=True,
    ),
    Explanation(
        ("UpdateTooLarge", "LearningRateTooLarge"),
        (*_LOSSES, *_NETWORK),
        "steps that are too long diverge, overflow, saturate units or kill them",
    ),
    Explanation(
        ("UpdateTooSmall",),
        ("LearningRateTooSmall", "WeightUpdateRatio"),
        "too small an update changes its weights too little",
    ),
    Explanation(
        _SLOW,
        ("NoSkill", "NoBetterThanGuessing", "Underfitting", "LossNotDecreasing", *_WEIGHTS),
        "weights that hardly move learn nothing",
    ),
    Explanation(
        ("PoorWeightInitialization",),
        (*_SKILL, *_STUCK, *_NETWORK, "AllZero"),
        "initial weights of the wrong scale saturate units, or let gradients vanish or explode",
    ),
    Explanation(
        ("NotNormalizedData",),
        (*_SKILL, *_STUCK, *_RISING, *_NETWORK, "PoorWeightInitialization"),
        "inputs and targets that are far from zero saturate units and make the loss steep",
    ),
    Explanation(
        ("ClassImbalance",),
        ("NoBetterThanGuessing", "ConstantOutput", *_COLLAPSE),
        "always predicting the most frequent class is a low loss",
    ),
    Explanation(
        ("GradientExplosion",),
        ("ExplodingTensor", "VanishingGradient", *_RISING, *_TOO_GOOD, *_OVERFITTING),
        "an exploding gradient destroys the weights, and dwarfs other gradients",
        since=True,
    ),
    Explanation(
        ("ExplodingTensor",),
        (*_LOSSES, *_SATURATION, *_NO_GRADIENT, *_WEIGHTS, *_EVALUATION, *_TOO_GOOD, "DeadNetwork"),
        "after NaN or infinity no loss and no gradient means anything",
        since=True,
    ),
    Explanation(
        ("DeadNetwork",),
        (*_SKILL, *_COLLAPSE, *_STUCK, *_NO_GRADIENT, "DeadRelu"),
        "a network whose output is constant gets no gradient and has no skill",
    ),
    Explanation(
        _SATURATION,
        _NO_GRADIENT,
        "saturated and dead units pass no gradient",
    ),
    Explanation(
        ("NoGradient",),
        ("VanishingGradient",),
        "a gradient of zero is also a small one",
    ),
    Explanation(
        _NO_GRADIENT,
        (*_SKILL, *_STUCK, "UnchangedTensor"),
        "layers without a gradient do not learn",
    ),
    Explanation(
        ("FrozenParameters",),
        (*_SKILL, *_STUCK, "UnchangedTensor", "AllZero", "EvaluationUnchanged"),
        "a weight that is not trained keeps its value, and learns nothing",
    ),
    Explanation(
        ("LossWorse",),
        ("LossDiverging", "LossOscillating", "LossSpike", *_TOO_GOOD, *_OVERFITTING),
        "a loss that stays worse is one finding, not several",
    ),
    Explanation(
        ("LossDiverging",),
        ("LossOscillating", "LossSpike", "LossGap", *_TOO_GOOD, *_OVERFITTING),
        "a diverging loss also oscillates, jumps and leaves a gap",
    ),
    Explanation(
        ("LossWorse", "LossDiverging"),
        (*_SKILL, *_STUCK),
        "a loss that rises loses the skill that it had",
        since=True,
    ),
    Explanation(
        ("Collapse",),
        _SKILL,
        "identical outputs cannot tell samples apart",
    ),
    Explanation(
        ("NoSkill",),
        ("NoBetterThanGuessing", "Underfitting", "ConstantOutput", "LossNotDecreasing"),
        "a model that learns no labels stays at the loss of a constant prediction",
    ),
    Explanation(
        ("NoBetterThanGuessing",),
        ("Underfitting", "ConstantOutput", "LossNotDecreasing"),
        "the loss of a constant prediction does not fall",
    ),
    Explanation(
        ("LossGap", "FirstEpochGap"),
        _OVERFITTING,
        "evaluation data that differs from training data has a higher loss from the start",
    ),
    Explanation(
        ("Memorises",),
        ("LossGap", *_OVERFITTING),
        "a model that memorises its training data does not generalise",
    ),
    Explanation(
        ("Memorises", "LossGap"),
        ("NoBetterThanGuessing",),
        "training beats a guess, so it is the evaluations that do not",
    ),
    Explanation(
        ("Overfit",),
        ("Overtraining",),
        "a model that overfits was better before",
    ),
    Explanation(
        (*(f"contract: {family}" for family in FAMILIES), *_LOSSES, *_EVALUATION),
        ("WorseThanBaseline",),
        "a baseline shows that something is worse, and these findings what it is",
    ),
    Explanation(
        ("InputBottleneck",),
        ("LowGPUUtilization",),
        "a GPU that waits for data is idle",
    ),
)


@lru_cache
def explained_by(kind: str) -> Mapping[str, Explanation]:
    """Return what findings of a kind explain: a rule, or a family of contracts. By rule; none if
    the kind is unknown.
    """
    own = [each for each in EXPLAINS if kind in each.causes]
    return {effect: each for each in reversed(own) for effect in each.effects if effect != kind}


def kind_of(finding: Finding) -> str:
    """The kind of a finding in ``EXPLAINS``: its rule, or the family of a broken contract. A
    contract at ``info`` states a fact that need not be a fault, and explains nothing.
    """
    if finding.rule != _CONTRACTS or finding.severity is Severity.INFO:
        return finding.rule
    contract = find(id_and_place(finding.tensor or "")[0])
    families = (name for name, family in FAMILIES.items() if contract in family)
    return next((f"contract: {name}" for name in families), finding.rule)


def explains(cause: Finding, effect: Finding) -> bool:
    """Return whether one finding explains another directly."""
    found = explained_by(kind_of(cause)).get(effect.rule)
    if found is None or not found.since or cause.step is None or effect.step is None:
        return found is not None
    return cause.step <= effect.step


def causes_first(findings: Iterable[Finding]) -> tuple[Lead, ...]:
    """The findings that no other one explains: the most severe first, then the earliest.

    Each finding is there once, as a lead or below one. A lead is as severe as the worst of what it
    explains, and as early as its first alarm. Where two explain an alarm, the more severe one does,
    and one that alarms by itself before a likely cause.
    """
    rest = set(findings)
    below = _below(rest)
    leads = []
    while rest:
        explained = {effect for each in rest for effect in below[each] if effect in rest}
        roots = [Lead(each, _reached(each, below, rest)) for each in rest - explained]
        alone = [lead for lead in roots if not lead.explains]  # they take nothing from others
        leads += alone or [min(roots, key=_claim)]
        rest -= {each for lead in leads for each in lead.findings}
    return tuple(sorted(leads, key=_rank))


def _below(findings: Iterable[Finding]) -> Mapping[Finding, list[Finding]]:
    """Return the findings that each finding explains directly."""
    found = tuple(findings)
    by_rule: dict[str, list[Finding]] = {}
    for each in found:
        by_rule.setdefault(each.rule, []).append(each)
    return {
        cause: [
            each
            for rule in explained_by(kind_of(cause))
            for each in by_rule.get(rule, ())
            if explains(cause, each)
        ]
        for cause in found
    }


def _reached(
    root: Finding, below: Mapping[Finding, list[Finding]], rest: set[Finding]
) -> tuple[Finding, ...]:
    """Return what a finding explains of the rest, directly or by way of others, but nothing that an
    arrow of its own leaves out because it began earlier.
    """
    own = explained_by(kind_of(root))
    reached: set[Finding] = set()
    todo = list(below[root])
    while todo:
        each = todo.pop()
        fits = each.rule not in own or explains(root, each)
        if each in rest and each not in reached and fits:
            reached.add(each)
            todo += below[each]
    return tuple(sorted(reached, key=_order))


def _claim(lead: Lead) -> tuple[bool, int, float, str]:
    return lead.likely, *_rank(lead)


def _rank(lead: Lead) -> tuple[int, float, str]:
    """Return severity and step of the first alarm, or of the finding where nothing is an alarm."""
    alarms = [each for each in lead.findings if each.severity is not Severity.INFO]
    steps = (_order(each)[1] for each in alarms or [lead.finding])
    return _MOST_SEVERE_FIRST.index(lead.severity), min(steps), lead.finding.name


def _order(finding: Finding) -> tuple[int, float, str]:
    step = float("inf") if finding.step is None else float(finding.step)
    return _MOST_SEVERE_FIRST.index(finding.severity), step, finding.name

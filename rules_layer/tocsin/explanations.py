"""The table of findings that explain others, and why: relations between rules and contracts.

``EXPLAINS`` is the only place that says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from tocsin.contracts import FAMILIES


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
        (*_SKILL, *_STUCK, *_EVALUATION, "DeadNetwork", "UnusedFeatures"),
        "trees that cannot grow cannot learn",
    ),
    Explanation(
        ("NonFiniteData",),
        (*_LOSSES, *_NETWORK, *_RATES, *_WEIGHTS, *_EVALUATION, "FewSamples"),
        "NaN in the data spreads to the loss, the gradients and the weights, and samples with NaN "
        "look alike",
    ),
    Explanation(
        ("TreeDepth",),
        _EVALUATION,
        "trees that deep fit single samples",
    ),
    Explanation(
        ("TrainEvalInputs",),
        (*_EVALUATION, "NoBetterThanGuessing", "NotNormalizedData"),
        "inputs on a different scale give a different loss",
    ),
    Explanation(
        ("TrainEvalOverlap",),
        _TOO_GOOD,
        "evaluating on the training data hides overfitting",
    ),
    Explanation(
        ("UnshuffledData",),
        (*_RISING, "SkillLost", *_COLLAPSE, *_RATES),
        "batches of one class pull the model towards that class, and the next ones back",
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
        ("LossSpike", "LossWorse", *_STUCK, "Underfitting"),
        "the loss follows a jump of the rate, and stalls when the rate vanishes",
        since=True,
    ),
    Explanation(
        ("LearningRateSchedule",),
        ("EvaluationUnchanged", "FrozenParameters", "UnchangedTensor"),
        "a rate that has vanished leaves the weights as they are",
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
        (*_SKILL, *_STUCK, *_RISING, *_NETWORK, *_RATES, *_SLOW, "PoorWeightInitialization"),
        "inputs and targets that are far from zero saturate units, make the loss steep, and are "
        "too far for steps of a usual rate",
    ),
    Explanation(
        ("ClassImbalance",),
        ("NoSkill", "NoBetterThanGuessing", "ConstantOutput", *_COLLAPSE),
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
        ("contract: sigmoid_between_layers",),
        (*_SKILL, *_STUCK, *_NO_GRADIENT),
        "each sigmoid between two layers makes the gradient at least four times smaller",
    ),
    Explanation(
        ("NoGradient",),
        ("VanishingGradient", "EvaluationUnchanged"),
        "a gradient of zero is also a small one, and leaves a model as it is",
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
        ("LossOscillating", "LossSpike", "LossGap", "VanishingGradient", *_TOO_GOOD, *_OVERFITTING),
        "a diverging loss also oscillates, jumps, leaves a gap, and dwarfs some gradients",
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
    """Return what findings of a kind explain: a rule, a family of contracts, or a contract at
    ``info``. By rule; none if the kind is unknown.
    """
    own = [each for each in EXPLAINS if kind in each.causes]
    return {effect: each for each in reversed(own) for effect in each.effects if effect != kind}

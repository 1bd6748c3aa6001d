"""Which alarms name a cause: by the rule, or by words in the detail of a rule with many reasons."""

from __future__ import annotations

import re
from dataclasses import dataclass

_ANY_RULE_OF_MANY_REASONS = re.compile("contract", re.IGNORECASE)
_WORSE = "LossWorse LossDiverging LossSpike LossOscillating SkillLost"
_STUCK = "NoSkill NoBetterThanGuessing LossNotDecreasing Underfitting EvaluationUnchanged"


@dataclass(frozen=True)
class Cause:
    """``rules`` name it by themselves; ``words``, a pattern, in the detail of a broken contract."""

    rules: frozenset[str]
    words: str = "$^"

    def named(self, rule: str, detail: str) -> bool:
        many = _ANY_RULE_OF_MANY_REASONS.search(rule)
        return rule in self.rules or bool(many and re.search(self.words, detail, re.IGNORECASE))


def _cause(rules: str, words: str = "$^") -> Cause:
    return Cause(frozenset(rules.split()), words)


CAUSES = {
    "no-skill": _cause(_STUCK + " ConstantOutput DeadNetwork UpdateTooSmall"),
    "worse": _cause(f"{_WORSE} LearningRateTooLarge UpdateTooLarge GradientExplosion"),
    "fast": _cause(
        f"{_WORSE} LearningRateTooLarge UpdateTooLarge GradientExplosion WeightUpdateRatio "
        "ExplodingTensor DeadRelu DeadNetwork NoGradient LearningRateSchedule"
    ),
    "slow": _cause(
        "LearningRateTooSmall UpdateTooSmall WeightUpdateRatio UnchangedTensor FrozenParameters "
        "LearningRateSchedule EvaluationUnchanged",
        r"\brounds\b",
    ),
    "unbound": _cause(
        "FrozenParameters UnchangedTensor UpdateTooSmall EvaluationUnchanged",
        r"optimi[sz]er|no gradient|never update",
    ),
    "no-gradient": _cause(
        "NoGradient FrozenParameters VanishingGradient AllZero", "gradient|derivative"
    ),
    "kept-gradients": _cause(f"{_WORSE} GradientExplosion UpdateTooLarge", "zero_grad|kept|update"),
    "probabilities": _cause("", r"probabilit|softmax|sigmoid|logit"),
    "softmax-axis": _cause("", r"softmax|batch"),
    "broadcast": _cause("", r"broadcast|shape|\(N, ?1\)"),
    "ignored": _cause("", r"ignor|labels are one"),
    "range": _cause("", r"range|outside|reach|negative"),
    "mode": _cause("FirstEpochGap", r"eval|train\(\)|mode"),
    "overfit": _cause("Overfit Overtraining LossGap FirstEpochGap Memorises FewSamples"),
    "inputs": _cause(
        "NotNormalizedData TrainEvalInputs CheckInputImages LossGap FirstEpochGap Overfit",
        "constant input",
    ),
    "not-finite": _cause("NonFiniteData ExplodingTensor LossDiverging LossWorse", "finite|nan"),
    "collapse": _cause("Collapse ConstantOutput DeadNetwork TensorVariance AllZero"),
    "dead": _cause(
        "DeadRelu DeadNetwork ConstantOutput AllZero NoGradient VanishingGradient "
        "PoorWeightInitialization FrozenParameters"
    ),
    "saturated": _cause(
        "SaturatedActivation TanhSaturation SigmoidSaturation PoorWeightInitialization "
        "VanishingGradient NoGradient"
    ),
    "imbalance": _cause("ClassImbalance Confusion ConstantOutput"),
    "order": _cause("UnshuffledData ClassImbalance LossOscillating", "order|sorted|shuffl"),
    "leak": _cause("LossTooGoodTooSoon LossGap TrainEvalOverlap", "equal|shift|leak"),
    "workers": _cause("WorkersDisagree WorkerLosses"),
    "schedule": _cause("LearningRateSchedule EvaluationUnchanged"),
    "trees": _cause("TreeDepth UnusedFeatures FeatureImportanceOverweight", r"\btrees?\b"),
}

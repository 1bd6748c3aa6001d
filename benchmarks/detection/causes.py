"""Causes of faults, each with the rules and contracts that name it rightly."""

from __future__ import annotations

from collections.abc import Iterable

_WORSE = "LossWorse LossDiverging LossSpike LossOscillating SkillLost"
_STUCK = "NoSkill NoBetterThanGuessing LossNotDecreasing Underfitting EvaluationUnchanged"
_ROUNDS = "learning_rate_times_rounds_too_small rounds_too_few"

_NAMED = {
    "actions": "actions_resampled entropy_minimised ppo_clip_uses_max",
    "broadcast": "broadcast broadcast_difference broadcast_product",
    "cancel": "errors_cancel",
    "clip": "UpdateTooSmall WeightUpdateRatio FrozenParameters LearningRateTooSmall",
    "collapse": "Collapse ConstantOutput DeadNetwork AllZero",
    "cosines": "cosines_as_logits",
    "dead": (
        "DeadRelu DeadNetwork ConstantOutput AllZero NoGradient VanishingGradient "
        "PoorWeightInitialization FrozenParameters relu_on_scores"
    ),
    "decay": "weight_decay_too_large",
    "derivative": ("derivative_without_graph derivative_always_zero gradient_penalty_subtracted"),
    "fast": (
        f"{_WORSE} LearningRateTooLarge UpdateTooLarge GradientExplosion WeightUpdateRatio "
        "ExplodingTensor DeadRelu DeadNetwork NoGradient LearningRateSchedule"
    ),
    "ignored": (
        "all_labels_ignored labels_identical padding_mask_inverted ctc_input_too_short "
        "ctc_blank_in_labels padding_in_loss"
    ),
    "imbalance": "ClassImbalance ConstantOutput class_weights_inverted labels_identical",
    "inputs": (
        "NotNormalizedData TrainEvalInputs LossGap FirstEpochGap Overfit FewSamples "
        "constant_input tokens_identical targets_identical"
    ),
    "kept-gradients": f"{_WORSE} GradientExplosion UpdateTooLarge gradients_not_cleared",
    "leak": (
        "LossGap TrainEvalOverlap label_among_inputs labels_copied labels_equal_inputs "
        "targets_not_shifted targets_shifted_twice sees_future_tokens"
    ),
    "mixed": "samples_mixed attention_over_queries axes_not_permuted positions_along_batch",
    "mode": (
        "FirstEpochGap eval_mode_while_training train_mode_while_evaluating "
        "dropout_in_evaluation dropout_too_large dropout_on_output batch_norm_momentum_too_large "
        "batch_norm_momentum_too_small"
    ),
    "no-gradient": (
        "NoGradient FrozenParameters VanishingGradient AllZero no_gradient part_detached "
        "optimizer_without_gradient update_without_backward training_step_returns_none "
        "derivative_always_zero softmax_single_class"
    ),
    "no-skill": f"{_STUCK} ConstantOutput DeadNetwork UpdateTooSmall",
    "not-finite": "NonFiniteData ExplodingTensor LossDiverging LossWorse UpdatesSkipped",
    "opponents": "gan_losses_agree",
    "order": "UnshuffledData ClassImbalance LossOscillating labels_identical",
    "overfit": "Overfit Overtraining LossGap FirstEpochGap Memorises FewSamples",
    "overlap": "overlap_minimised overlap_of_logits",
    "permuted": "classes_not_permuted axes_not_permuted channels_not_permuted",
    "probabilities": (
        "probabilities_as_logits logits_as_probabilities softmax_twice softmax_single_class "
        "softmax_between_layers relu_on_scores not_log_probabilities kl_div_input_not_log "
        "overlap_of_logits several_classes_in_cross_entropy"
    ),
    "range": (
        "target_out_of_range bce_target_out_of_range ctc_blank_in_labels "
        "labels_outside_training_range"
    ),
    "saturated": (
        "TanhSaturation SigmoidSaturation PoorWeightInitialization VanishingGradient NoGradient "
        "sigmoid_between_layers"
    ),
    "schedule": (
        "LearningRateSchedule EvaluationUnchanged learning_rate_zero scheduler_not_stepped "
        "scheduler_stepped_per_epoch warmup_not_finished monitor_mode_reversed"
    ),
    "slow": (
        "LearningRateTooSmall UpdateTooSmall WeightUpdateRatio FrozenParameters "
        "updates_rounded_to_zero "
        f"LearningRateSchedule EvaluationUnchanged StalledTrainingRule {_ROUNDS}"
    ),
    "softmax-axis": "softmax_over_batch softmax_over_positions attention_over_queries",
    "target": "target_not_detached next_state_equals_state target_network_never_updated",
    "trees": (
        "TreeDepth UnusedFeatures FeatureImportanceOverweight xgboost_parameters_ignored "
        f"{_ROUNDS} min_child_weight_too_large trees_without_splits labels_outside_training_range"
    ),
    "unbound": (
        "FrozenParameters UpdateTooSmall EvaluationUnchanged optimizer_step_missing "
        "optimizer_of_another_model optimizer_holds_only_frozen optimizer_without_gradient "
        "parameter_in_no_optimizer layer_not_registered part_detached frozen_random_weights "
        "learning_rate_zero no_gradient update_without_backward training_step_returns_none"
    ),
    "undefined": "log_of_zero sqrt_of_zero division_by_zero eps_zero_in_half_precision",
    "worse": (
        f"{_WORSE} LearningRateTooLarge UpdateTooLarge GradientExplosion likelihood_minimised"
    ),
    "workers": "WorkersDisagree WorkerLosses StragglingWorker",
}

CAUSES = {cause: frozenset(names.split()) for cause, names in _NAMED.items()}
"""By a word for the cause: names of rules, and ids of contracts."""


def named_by(causes: Iterable[str]) -> frozenset[str]:
    """Return the rules and contracts that name one of these causes. Raises KeyError."""
    return frozenset().union(*(CAUSES[cause] for cause in causes))

"""Contracts in the runs of earlier hooks, and in the watch files of their time."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

FORMER: Mapping[str, str] = MappingProxyType(
    {
        "best_is_worst": "monitor_mode_reversed",
        "blank_is_a_label": "ctc_blank_in_labels",
        "broadcast_by_hand": "broadcast_difference",
        "channels_scrambled": "channels_not_permuted",
        "clipped_objective_reversed": "ppo_clip_uses_max",
        "cut_off": "part_detached",
        "derivative_of_zero": "derivative_always_zero",
        "drawn_again": "actions_resampled",
        "dropout_of_most": "dropout_too_large",
        "dropout_of_predictions": "dropout_on_output",
        "frozen_at_random": "frozen_random_weights",
        "gradients_kept": "gradients_not_cleared",
        "inputs_shorter_than_labels": "ctc_input_too_short",
        "kl_not_log": "kl_div_input_not_log",
        "label_is_an_input": "label_among_inputs",
        "labels_all_alike": "labels_identical",
        "labels_beyond_training": "labels_outside_training_range",
        "learning_rate_of_trees": "learning_rate_times_rounds_too_small",
        "learning_rate_of_zero": "learning_rate_zero",
        "min_child_weight_of_most": "min_child_weight_too_large",
        "momentum_of_one_batch": "batch_norm_momentum_too_large",
        "never_updated": "optimizer_step_missing",
        "next_state_is_state": "next_state_equals_state",
        "nothing_returned": "training_step_returns_none",
        "opponents_agree": "gan_losses_agree",
        "optimizer_of_frozen": "optimizer_holds_only_frozen",
        "overlap_of_scores": "overlap_of_logits",
        "padding_attended": "padding_mask_inverted",
        "parameters_unused": "xgboost_parameters_ignored",
        "penalty_subtracted": "gradient_penalty_subtracted",
        "product_across_samples": "broadcast_product",
        "schedule_counts_updates": "scheduler_stepped_per_epoch",
        "schedule_not_stepped": "scheduler_not_stepped",
        "sees_ahead": "sees_future_tokens",
        "softmax_of_one": "softmax_single_class",
        "target_never_renewed": "target_network_never_updated",
        "tokens_all_alike": "tokens_identical",
        "warm_up_to_the_end": "warmup_not_finished",
        "weight_decay_of_most": "weight_decay_too_large",
        "weights_upside_down": "class_weights_inverted",
    }
)
"""Former ids, each with the id of today."""

RETIRED = frozenset({"actions_resampled"})
"""Contracts that only earlier hooks checked."""

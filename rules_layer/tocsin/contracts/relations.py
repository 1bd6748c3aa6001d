"""Relations between contracts by id, and those that must be broken several times."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

SEVERAL_TIMES = frozenset(
    {
        "all_labels_ignored",
        "channels_not_permuted",
        "constant_input",
        "derivative_always_zero",
        "derivative_without_graph",
        "ctc_input_too_short",
        "label_among_inputs",
        "labels_identical",
        "labels_equal_inputs",
        "padding_in_loss",
        "several_classes_in_cross_entropy",
        "broadcast_product",
        "softmax_single_class",
        "targets_shifted_twice",
        "tokens_identical",
        "class_weights_inverted",
    }
)
"""Contracts that a single dummy or short batch may break: broken once, they are not reported."""

SIGN_CONTRACTS = frozenset(
    {
        "entropy_minimised",
        "gradient_penalty_subtracted",
        "likelihood_minimised",
        "overlap_minimised",
        "ppo_clip_uses_max",
    }
)
"""Contracts on the sign of a loss: not reported where an optimizer maximises it."""

UNLESS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "optimizer_without_gradient": (
            "no_gradient",
            "optimizer_of_another_model",
            "update_without_backward",
        ),
    }
)
"""Contracts that are not reported once one of these was found, which names the cause."""

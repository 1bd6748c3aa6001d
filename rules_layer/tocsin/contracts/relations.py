"""Relations between contracts, and how often some must be broken, by their ids."""

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
        "broadcast_product",
        "softmax_single_class",
        "targets_shifted_twice",
        "tokens_identical",
        "class_weights_inverted",
    }
)
"""What may be so once by chance: in a dummy batch, or a short one."""

OF_SIGNS = frozenset({"gradient_penalty_subtracted", "overlap_minimised", "ppo_clip_uses_max"})
"""What is no fault where the optimizer is to make the loss larger."""

UNLESS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "optimizer_without_gradient": (
            "no_gradient",
            "optimizer_of_another_model",
            "update_without_backward",
        ),
    }
)
"""What is not reported where another one was before, which says more."""

"""Mistakes in the loop: what is called when, and what is forgotten."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from benchmarks.detection.change import Apply, mistake
from benchmarks.detection.task import Training


def slip(name: str, **changes: object) -> Callable[[Training], Training]:
    """Return a change to the mistake of the loop itself that has this name."""
    return lambda t: replace(t, slip=name, **changes)


def slips(part: str, named: dict[str, tuple[str, str, Apply]], certain: bool = False) -> None:
    """Register mistakes that a loop makes by itself: causes, traits that are needed, the slip."""
    for name, (causes, needs, apply) in named.items():
        apply.__name__ = name
        mistake(part, causes, needs, certain=certain)(apply)


slips("loop", {
    "gradients_never_cleared": (
        "kept-gradients fast worse", "table|pictures",
        slip("gradients kept", optimizer="sgd", rate=0.5, clip=None),
    ),
    "cleared_before_the_update": (
        "no-gradient slow no-skill unbound", "", slip("cleared before the update"),
    ),
    "update_forgotten": ("unbound slow no-skill", "", slip("no update")),
})  # fmt: skip


@mistake("loop", "mode worse fast no-skill", "batch_norm")
def trained_in_eval_mode(t: Training) -> Training:
    """train() is never called, so nothing normalises inputs in raw units."""
    s = t.samples
    raw = replace(s, x=40 * s.x + 90, held_x=40 * s.held_x + 90)
    return replace(t, slip="always in eval mode", samples=raw)


@mistake("loop", "mode no-skill worse", "dropout", without="attention")
def evaluated_with_strong_dropout(t: Training) -> Training:
    """eval() is forgotten, and dropout drops nine of ten."""
    for layer in t.model.modules():
        if hasattr(layer, "p") and hasattr(layer, "inplace"):
            layer.p = 0.95
    return replace(t, slip="evaluated in train mode")


slips("accumulation", {
    "accumulated_for_ever": (
        "kept-gradients fast worse", "table",
        slip("never cleared", optimizer="sgd", rate=0.5, clip=None),
    ),
    "parts_summed_not_averaged": (
        "fast worse dead", "table|pictures",
        slip("parts not divided", optimizer="sgd", rate=8.0, clip=None),
    ),
})  # fmt: skip

slips("phases", {
    "second_optimizer_of_a_copy": (
        "unbound slow no-skill", "", slip("second optimizer of a copy"),
    ),
    "second_phase_too_fast": (
        "fast worse dead no-skill", "relu|recurrent|sigmoid", slip("second rate of 30"),
    ),
})  # fmt: skip

slips("line search", {"no_line_search": ("fast worse dead not-finite", "", slip("no line search"))})

slips("lightning", {
    "training_step_returns_nothing": (
        "no-gradient unbound slow no-skill", "", slip("returns nothing"),
    ),
    "training_step_returns_a_detached_loss": (
        "no-gradient unbound slow no-skill", "", slip("returns a detached loss"),
    ),
    "manual_optimization_without_step": (
        "unbound slow no-skill", "", slip("manual without an update"),
    ),
    "one_cycle_stepped_by_the_epoch": (
        "schedule slow no-skill", "table|pictures",
        slip("scheduled by the epoch", schedule="one cycle", rate=1e-3),
    ),
})  # fmt: skip

slips("workers", {
    "one_worker_with_shuffled_labels": ("workers no-skill", "", slip("one has shuffled labels")),
    "one_worker_with_other_inputs": (
        "workers inputs worse fast", "", slip("one has inputs x 255"),
    ),
    "workers_start_apart": ("workers", "", slip("own starts")),
    "gradients_not_exchanged": ("workers", "", slip("gradients not exchanged")),
    "one_worker_stays_behind": ("workers unbound slow", "", slip("one stays behind")),
}, certain=True)  # fmt: skip

slips("adversarial", {
    "generator_detached": ("no-gradient unbound", "", slip("generator detached")),
    "generator_hardly_moves": ("slow no-skill", "", slip("generator hardly moves")),
    "labels_of_the_generator_swapped": (
        "opponents no-skill worse collapse", "", slip("labels of the generator swapped"),
    ),
    "noise_left_at_zero": ("collapse inputs", "", slip("noise left at zero")),
    "two_optimizers_of_the_generator": (
        "unbound slow no-skill", "", slip("two optimizers of the generator"),
    ),
})  # fmt: skip

slips("episodes", {
    "gain_minimised": ("no-skill worse collapse", "", slip("gain minimised")),
    "log_probabilities_detached": (
        "no-gradient no-skill slow collapse", "", slip("log-probabilities detached"),
    ),
    "actions_drawn_again": ("actions no-skill", "", slip("actions drawn again")),
    "rewards_are_zero": ("no-gradient slow no-skill", "", slip("rewards are zero")),
    "rewards_of_other_walkers": ("no-skill", "walk", slip("rewards of other walkers")),
})  # fmt: skip

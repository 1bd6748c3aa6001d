"""Mistakes in the optimizer, its settings and the schedule of its learning rate."""

from __future__ import annotations

import copy
from dataclasses import replace

from benchmarks.detection.change import mistake
from benchmarks.detection.task import Training

FAST = "fast worse dead no-skill saturated collapse"


@mistake("settings", FAST, without="small linear")
def rate_times_1000(t: Training) -> Training:
    return replace(t, rate=1000 * t.rate, clip=None)


@mistake("settings", FAST, without="small linear joined")
def rate_times_100(t: Training) -> Training:
    return replace(t, rate=100 * t.rate, clip=None)


@mistake("settings", "slow no-skill")
def rate_divided_by_1000(t: Training) -> Training:
    return replace(t, rate=t.rate / 1000)


@mistake("settings", "collapse no-skill slow decay", without="small linear adversarial episodes")
def weight_decay_of_one(t: Training) -> Training:
    """Added to the gradients, as Adam and SGD do."""
    optimizer = "adam" if t.optimizer == "adamw" else t.optimizer
    return replace(t, weight_decay=1.0, optimizer=optimizer)


@mistake("settings", FAST, "recurrent|relu|sigmoid", without="small ids ctc reconstruction")
def sgd_with_a_rate_of_30(t: Training) -> Training:
    """The rate of another problem, and no clipping."""
    return replace(t, optimizer="sgd", rate=30.0, clip=None)


@mistake("settings", "slow no-skill", without="linear episodes adversarial table pictures")
def rate_of_adam_for_sgd(t: Training) -> Training:
    return replace(t, optimizer="sgd", rate=t.rate / 10)


@mistake("optimizer", "slow no-skill clip", without="adversarial episodes")
def gradients_clipped_to_nothing(t: Training) -> Training:
    """By a millionth, and with an optimizer that feels it."""
    return replace(t, optimizer="sgd", clip=1e-6)


@mistake("optimizer", "schedule slow", without="adversarial linear")
def warm_up_never_ends(t: Training) -> Training:
    """Steps of the warm-up were planned for a training a thousand times as long."""
    return replace(t, schedule="endless warmup")


@mistake("optimizer", "schedule slow", without="adversarial episodes linear small")
def decayed_after_each_update(t: Training) -> Training:
    """A factor that was meant for each epoch."""
    return replace(t, schedule="decay per update", rate=t.rate / 10)


@mistake("optimizer", f"schedule {FAST}", without="adversarial episodes small linear")
def rate_jumps_half_way(t: Training) -> Training:
    """A restart of the schedule at another unit."""
    return replace(t, schedule="jump", clip=None)


@mistake("optimizer", "unbound slow no-skill", without="adversarial")
def optimizer_of_a_copy(t: Training) -> Training:
    """The model was copied, or rebuilt, after the optimizer was made."""
    old = copy.deepcopy(t.model)
    return replace(t, parameters=lambda _: old.parameters())


@mistake("optimizer", "unbound no-skill slow", "joined", without="small linear")
def optimizer_without_the_head(t: Training) -> Training:
    """The head was replaced after the optimizer was made."""
    body = [*t.model.body.parameters()]
    head = t.model.head
    for value in head.parameters():
        value.data.mul_(0.02)
    return replace(t, parameters=lambda _: body[:1] or head.parameters())


@mistake("optimizer", "unbound no-skill slow", "pretrained")
def optimizer_of_the_frozen_body(t: Training) -> Training:
    """Made before the body was frozen: it holds nothing that is trained."""
    frozen = copy.deepcopy(t.model.body)
    return replace(t, parameters=lambda _: frozen.requires_grad_(True).parameters())


@mistake("settings", "schedule unbound slow no-skill", without="adversarial")
def rate_rounded_to_zero(t: Training) -> Training:
    """An integer division, or a schedule that begins, and ends, at 0."""
    return replace(t, rate=0.0)

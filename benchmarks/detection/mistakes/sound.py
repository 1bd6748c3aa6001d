"""Sound variants, many of which look like trouble."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn

from benchmarks.detection.change import variant
from benchmarks.detection.mistakes.samples import changed
from benchmarks.detection.task import Training


@variant("optimizer", without="adversarial")
def restarts_of_the_rate(t: Training) -> Training:
    return replace(t, schedule="restarts", rate=1.5 * t.rate)


@variant("optimizer", without="adversarial")
def one_cycle(t: Training) -> Training:
    return replace(t, schedule="one cycle", rate=2 * t.rate)


@variant("optimizer", without="adversarial")
def warm_up(t: Training) -> Training:
    return replace(t, schedule="warmup", rate=1.5 * t.rate)


@variant("optimizer", without="adversarial")
def cosine(t: Training) -> Training:
    return replace(t, schedule="cosine", rate=1.5 * t.rate)


@variant("settings", without="linear adversarial episodes attention")
def momentum(t: Training) -> Training:
    return replace(t, optimizer="momentum", rate=0.05 if t.rate < 0.05 else t.rate, clip=1.0)


@variant("settings", without="linear adversarial sigmoid")
def rmsprop(t: Training) -> Training:
    return replace(t, optimizer="rmsprop", rate=t.rate / 3)


@variant("settings", without="linear adversarial sigmoid")
def decoupled_weight_decay(t: Training) -> Training:
    return replace(t, optimizer="adamw", weight_decay=0.05)


@variant("settings", without="contrastive graph batch_norm episodes")
def batch_of_eight(t: Training) -> Training:
    return replace(t, batch=8, rate=t.rate / 2, steps=int(1.5 * t.steps))


@variant("settings", without="graph small adversarial")
def batch_of_200(t: Training) -> Training:
    return replace(t, batch=200)


@variant("settings", without="episodes adversarial")
def twice_as_long(t: Training) -> Training:
    return replace(t, steps=2 * t.steps, rate=t.rate / 2)


@variant("settings", without="adversarial episodes")
def two_thirds_of_the_rate(t: Training) -> Training:
    return replace(t, rate=t.rate / 1.5, steps=int(1.2 * t.steps))


@variant("optimizer", without="adversarial episodes")
def clipped(t: Training) -> Training:
    return replace(t, clip=0.5)


@variant("settings", without="episodes adversarial")
def never_evaluated(t: Training) -> Training:
    return replace(t, evaluations=0)


@variant("loss", without="adversarial episodes")
def loss_times_10000(t: Training) -> Training:
    return replace(t, loss=lambda outputs, y: 1e4 * t.loss(outputs, y))


@variant("loss", without="adversarial episodes")
def loss_minus_one_hundred(t: Training) -> Training:
    """A constant in the loss, which is negative then."""
    return replace(t, loss=lambda outputs, y: t.loss(outputs, y) - 100)


@variant("samples", "classes", without="pixels small graph")
def one_label_in_twenty_wrong(t: Training) -> Training:
    y = t.samples.y
    wrong = torch.rand(len(y)) < 0.05
    return changed(t, y=torch.where(wrong, y[torch.randperm(len(y))], y))


@variant("samples", "numbers", without="reconstruction pictures ids")
def noisy_targets(t: Training) -> Training:
    y = t.samples.y
    return changed(t, y=y + 0.3 * y.std() * torch.randn_like(y))


@variant("samples", "numbers", without="reconstruction bounded ids")
def targets_with_a_large_mean(t: Training) -> Training:
    """Not centred; learned well all the same."""
    s = t.samples
    return changed(t, y=s.y + 3, held_y=s.held_y + 3)


@variant("samples", "classes", without="pixels small graph")
def one_class_three_times_as_frequent(t: Training) -> Training:
    y = t.samples.y
    kept = (y == 0) | (torch.rand(len(y)) < 0.4)
    return changed(t, x=t.samples.x[kept], y=y[kept])


@variant("samples", "table|pictures|series", without="reconstruction small")
def less_data(t: Training) -> Training:
    half = len(t.samples.x) * 2 // 3
    return changed(t, x=t.samples.x[:half], y=t.samples.y[:half])


@variant("model", "joined", without="linear pixels ctc pretrained batch_norm reconstruction")
def dropout_of_one_tenth(t: Training) -> Training:
    t.model.body = nn.Sequential(t.model.body, nn.Dropout(0.1))
    return replace(t, steps=int(1.3 * t.steps))


@variant("model", "relu joined", without="batch_norm ids sets reconstruction")
def tanh_in_place_of_relu(t: Training) -> Training:
    for name, layer in [*t.model.named_modules()]:
        if isinstance(layer, nn.ReLU):
            owner, _, attribute = name.rpartition(".")
            setattr(t.model.get_submodule(owner), attribute, nn.Tanh())
    return t


@variant("model", "joined", without="pretrained small reconstruction")
def first_bias_frozen(t: Training) -> Training:
    for name, value in t.model.named_parameters():
        if "bias" in name:
            value.requires_grad_(False)
            break
    return t


@variant("model", "pretrained")
def body_not_frozen(t: Training) -> Training:
    t.model.body.requires_grad_(True)
    return replace(t, rate=t.rate / 2)


@variant("loop", without="recurrent ctc likelihood quantiles counts vae")
def bfloat16(t: Training) -> Training:
    return replace(t, bfloat16=True)


@variant("trees")
def slower_trees(t: Training) -> Training:
    return replace(t, trees={"eta": 0.1, "num_boost_round": 160})


@variant("trees")
def rows_and_columns_sampled(t: Training) -> Training:
    return replace(t, trees={"subsample": 0.7, "colsample_bytree": 0.8})


@variant("trees")
def leaves_regularised(t: Training) -> Training:
    return replace(t, trees={"lambda": 5.0, "min_child_weight": 3.0, "eta": 0.3})


@variant("trees")
def stopped_early(t: Training) -> Training:
    given = {"num_boost_round": 300, "early_stopping_rounds": 20}
    return replace(t, trees=given)


@variant("keras")
def keras_tanh(t: Training) -> Training:
    return replace(t, keras={"activation": "tanh"})


@variant("keras")
def keras_plateau(t: Training) -> Training:
    def callbacks(keras: object) -> list[object]:
        return [keras.callbacks.ReduceLROnPlateau(patience=3, factor=0.5)]  # type: ignore[attr-defined]  # Keras has no types

    return replace(t, keras={"callbacks": callbacks})

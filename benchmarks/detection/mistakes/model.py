"""Mistakes in the model: how it starts, what it consists of, what of it is trained."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor, nn

from benchmarks.detection.change import mistake
from benchmarks.detection.task import Training


def layers_of(model: nn.Module) -> Iterator[Any]:
    """The layers with weights of two and more dimensions."""
    for layer in model.modules():
        if isinstance(layer, nn.Linear | nn.Conv1d | nn.Conv2d):
            yield layer


@mistake("model", "no-skill dead collapse no-gradient", without="linear adversarial pretrained")
def weights_start_at_zero(t: Training) -> Training:
    for value in t.model.parameters():
        nn.init.zeros_(value)
    return t


@mistake(
    "model",
    "fast worse dead no-skill collapse saturated",
    "table|pictures|sets",
    without="linear batch_norm adversarial tanh deep small attention reconstruction",
)
def weights_start_huge(t: Training) -> Training:
    """Drawn with a deviation of one, whatever the number of inputs, and × 10."""
    for layer in layers_of(t.model):
        nn.init.normal_(layer.weight, std=10.0)
    return t


@mistake("model", "dead no-skill collapse no-gradient", "relu joined", without="small ids sets")
def relus_start_shut(t: Training) -> Training:
    """A bias so far below zero that no unit is ever on."""
    for layer in layers_of(t.model.body):
        nn.init.constant_(layer.bias, -30.0)
        nn.init.normal_(layer.weight, std=0.01)
    return replace(t, model=without_normalisation(t.model))


def without_normalisation(model: Any) -> Any:
    for name, layer in model.named_modules():
        if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
            owner, _, attribute = name.rpartition(".")
            setattr(model.get_submodule(owner), attribute, nn.Identity())
    return model


@mistake("model", "saturated no-skill dead slow", "sigmoid|recurrent", without="ctc causal padded")
def activations_start_saturated(t: Training) -> Training:
    with torch.no_grad():
        for name, value in t.model.named_parameters():
            if value.dim() > 1 and "head" not in name:
                value.normal_(std=12.0)
    return t


@mistake("model", "dead no-skill no-gradient collapse saturated", "table joined", "tuple linear")
def nine_layers_of_sigmoids(t: Training) -> Training:
    """The gradient vanishes on its way through them."""
    width = t.model.head.in_features
    deep = [part for _ in range(9) for part in (nn.Linear(width, width), nn.Sigmoid())]
    t.model.body = nn.Sequential(t.model.body, *deep)
    return t


@mistake("model", "no-gradient unbound", "joined", without="ctc padded pretrained")
def body_detached(t: Training) -> Training:
    """Detach what the body returns: the head learns alone, on random features."""
    t.model.between = torch.detach
    with torch.no_grad():
        for value in t.model.body.parameters():
            value.mul_(0.3)
    return t


@mistake("model", "probabilities no-skill slow", "joined", "linear")
def softmax_between_layers(t: Training) -> Training:
    """An activation of probabilities between the body and the head, whose shares say little."""
    t.model.between = lambda found: found.softmax(1)
    return replace(t, optimizer="momentum", rate=0.05)


@mistake("model", "mode no-skill slow", "classes joined", without="pixels small")
def dropout_of_95_percent(t: Training) -> Training:
    """Its argument was taken for the share that is kept."""
    t.model.body = nn.Sequential(t.model.body, nn.Dropout(0.97))
    return t


@mistake("model", "mode no-skill slow worse", "numbers joined", without="reconstruction")
def dropout_on_the_output(t: Training) -> Training:
    t.model.head = nn.Sequential(t.model.head, nn.Dropout(0.5))
    return t


@mistake("model", "range no-skill dead", "numbers", without="reconstruction bounded")
def relu_on_the_output(t: Training) -> Training:
    """Targets may be negative, and the output cannot."""
    return replace(t, model=nn.Sequential(t.model, nn.ReLU()))


@mistake("model", "range no-skill collapse saturated", "numbers", without="reconstruction bounded")
def sigmoid_on_the_output(t: Training) -> Training:
    """Targets are standardised, and most lie outside 0 to 1."""
    return replace(t, model=nn.Sequential(t.model, nn.Sigmoid()))


@mistake("model", "no-skill slow", "classes table joined", without="small sigmoid")
def body_of_one_unit(t: Training) -> Training:
    """A bottleneck that nothing gets through."""
    width = t.model.head.in_features
    t.model.body = nn.Sequential(t.model.body, nn.Linear(width, 1), nn.Linear(1, width))
    return t


@mistake("model", "unbound no-gradient no-skill slow", "joined", without="small linear")
def all_but_a_bias_frozen(t: Training) -> Training:
    *_, last = t.model.parameters()
    t.model.requires_grad_(False)
    last.requires_grad_(True)
    return t


@mistake("model", "unbound no-skill", "pretrained")
def checkpoint_not_loaded(t: Training) -> Training:
    """Its names did not match: the frozen body has random weights."""
    for layer in layers_of(t.model.body):
        layer.reset_parameters()
        nn.init.normal_(layer.weight, std=0.01)
    return t


@mistake("model", "mode worse overfit", "batch_norm", "small")
def batch_norm_momentum_of_keras(t: Training) -> Training:
    """0.99 was meant as the share that is kept."""
    for layer in t.model.modules():
        if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
            layer.momentum = 0.99
    return replace(t, batch=2, rate=5 * t.rate)


@mistake("model", "leak inputs", "causal attention", certain=True)
def no_causal_mask(t: Training) -> Training:
    t.model.causal = False
    return t


@mistake("model", "ignored inputs no-skill", "padding_mask")
def padding_mask_inverted(t: Training) -> Training:
    t.model.body.inverted = True
    return t


@mistake("model", "softmax-axis mixed no-skill", "attention pictures")
def attention_between_samples(t: Training) -> Training:
    """The axes of batch and positions are swapped: samples attend to each other."""
    inner = t.model.body.layers

    class Swapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: Tensor) -> Tensor:
            found: Tensor = self.inner(x.transpose(0, 1)).transpose(0, 1)
            return found + found.roll(1, 0)

    t.model.body.layers = Swapped()
    return t


@mistake("model", "permuted inputs no-skill overfit", "pictures classes", without="attention")
def pictures_viewed_not_permuted(t: Training) -> Training:
    """Pixels of the layout (N, H, W, C) are viewed as (N, C, H, W), in training alone."""
    x = t.samples.x
    channels = x.shape[1] if x.shape[1] > 1 else x.shape[2]
    mixed = x.reshape(len(x), channels, -1).transpose(1, 2).reshape(x.shape)
    return replace(t, samples=replace(t.samples, x=mixed))


@mistake("model", "unbound no-skill", "joined", without="pretrained tuple")
def layers_in_a_plain_list(t: Training) -> Training:
    """Layers in a Python list are not parameters: the optimizer never gets them."""
    hidden = copy.deepcopy(t.model.body)
    with torch.no_grad():
        for value in hidden.parameters():
            value.mul_(0.3)

    class Unregistered(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = [hidden]

        def forward(self, x: Tensor) -> Any:
            return self.layers[0](x)

    t.model.body = Unregistered()
    return t


@mistake("model", "permuted no-skill", "series classes|numbers", without="batch_norm")
def series_viewed_not_permuted(t: Training) -> Training:
    """(time, N, C) is viewed as (N, time, C): the steps of samples are mixed."""
    s = t.samples
    return replace(t, samples=replace(s, x=s.x.transpose(0, 1).reshape(s.x.shape)))


@mistake("model", "mode no-skill worse", "joined", without="pixels tuple sets")
def dropout_always_active(t: Training) -> Training:
    """F.dropout without training=self.training."""
    t.model.between = lambda found: F.dropout(found, 0.8)
    return t

"""Mistakes in the loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor

from benchmarks.detection.change import mistake
from benchmarks.detection.task import Training


def of_outputs(t: Training, change: Callable[[Any], Any]) -> Training:
    """The loss gets the outputs after a change."""
    return replace(t, loss=lambda outputs, y: t.loss(change(outputs), y))


@mistake("loss", "probabilities no-skill slow", "classes", without="ctc")
def softmax_before_cross_entropy(t: Training) -> Training:
    """At a low rate: Adam makes up for its tiny gradients else."""
    return of_outputs(replace(t, rate=t.rate / 30), lambda scores: scores.softmax(1))


@mistake("loss", "probabilities no-skill slow", "binary")
def sigmoid_before_its_loss(t: Training) -> Training:
    """The loss applies a sigmoid by itself; at a low rate."""
    return of_outputs(replace(t, rate=t.rate / 30), torch.sigmoid)


@mistake("loss", "probabilities no-skill worse not-finite dead", "binary", without="imbalanced")
def logits_for_probabilities(t: Training) -> Training:
    """Binary cross-entropy without a sigmoid, with a clamp against its error."""
    return replace(t, loss=lambda found, y: F.binary_cross_entropy(found.clamp(0, 1), y))


@mistake("loss", "probabilities no-skill worse", "classes", without="pixels")
def scores_for_log_probabilities(t: Training) -> Training:
    return replace(t, loss=F.nll_loss)


@mistake("loss", "softmax-axis no-skill", "classes", without="pixels graph")
def softmax_over_the_batch(t: Training) -> Training:
    return replace(t, batch=6, loss=lambda scores, y: F.nll_loss(scores.log_softmax(0), y))


@mistake("loss", "softmax-axis no-skill", "pixels")
def softmax_over_positions(t: Training) -> Training:
    return replace(t, loss=lambda scores, y: F.nll_loss(scores.log_softmax(-1), y))


@mistake("loss", "probabilities no-gradient no-skill slow", "binary", without="many_labels masks")
def softmax_of_a_single_score(t: Training) -> Training:
    return replace(t, loss=lambda found, y: F.binary_cross_entropy(found.softmax(1), y))


@mistake("loss", "broadcast no-skill", "numbers", without="pictures reconstruction")
def labels_lose_a_dimension(t: Training) -> Training:
    """(N, 1) against (N)."""
    return replace(t, loss=lambda found, y: t.loss(found[:, :1], y[:, 0]))


@mistake("loss", "broadcast no-skill", "numbers table|series", without="reconstruction")
def difference_of_all_pairs(t: Training) -> Training:
    """(N, 1) minus (N), by hand."""
    return replace(t, loss=lambda found, y: ((found - y.squeeze(1)) ** 2).mean())


@mistake("loss", "broadcast no-skill", "classes table", without="small")
def weights_of_all_pairs(t: Training) -> Training:
    """The losses of samples, (N, 1), times their weights, (N)."""

    def loss(scores: Tensor, y: Tensor) -> Tensor:
        each = F.cross_entropy(scores, y, reduction="none")[:, None]
        return (each * (scores.detach().argmax(1) != y)).mean()

    return replace(t, loss=lambda scores, y: loss(scores.roll(1, 1), y))


@mistake("loss", "cancel no-skill collapse", "numbers", without="reconstruction")
def errors_averaged_before_the_square(t: Training) -> Training:
    return replace(t, loss=lambda found, y: (found - y).mean() ** 2)


@mistake("loss", "no-gradient no-skill unbound", "classes|binary|numbers")
def loss_of_detached_outputs(t: Training) -> Training:
    """The graph is cut before the loss; an unrelated leaf hides the error."""
    leaf = torch.zeros((), requires_grad=True)
    return replace(t, loss=lambda outputs, y: t.loss(outputs.detach(), y) + 0 * leaf)


@mistake("loss", "no-gradient no-skill unbound", "classes", without="pixels graph")
def loss_of_the_argmax(t: Training) -> Training:
    """The share of wrong predictions has no gradient."""

    def loss(scores: Tensor, y: Tensor) -> Tensor:
        return (scores.argmax(1) != y).float().mean() + 0 * scores.sum()

    return replace(t, loss=loss)


@mistake("loss", "worse fast no-skill not-finite", "classes|binary|numbers|counts")
def sign_of_the_loss(t: Training) -> Training:
    return replace(t, loss=lambda outputs, y: -t.loss(outputs, y))


@mistake("loss", "no-gradient slow no-skill", "classes|numbers|metric|causal|likelihood")
def loss_times_zero(t: Training) -> Training:
    """The weight of this loss was left at 0."""
    return replace(t, loss=lambda outputs, y: 0.0 * t.loss(outputs, y))


@mistake("loss", "no-skill slow worse overfit", "classes", without="pixels graph")
def targets_smoothed_away(t: Training) -> Training:
    """A label smoothing of 0.99 in place of 0.01 teaches the least likely class."""
    return replace(t, loss=lambda s, y: F.cross_entropy(s, y, label_smoothing=0.99))


@mistake("loss", "imbalance no-skill worse", "imbalanced")
def class_weights_inverted(t: Training) -> Training:
    """The frequent class counts a thousand times as much."""
    weight = torch.tensor(1e-3)
    return replace(t, loss=lambda s, y: F.binary_cross_entropy_with_logits(s, y, pos_weight=weight))


@mistake("loss", "permuted no-skill", "pixels")
def classes_viewed_not_permuted(t: Training) -> Training:
    """Scores (N, C, H, W) are viewed as rows of C classes."""
    return replace(t, loss=lambda s, y: F.cross_entropy(s.reshape(-1, s.shape[1]), y.flatten()))


@mistake("loss", "overlap no-skill collapse worse", "masks")
def overlap_minimised(t: Training) -> Training:
    """The Dice coefficient itself is the loss."""

    def dice(scores: Tensor, y: Tensor) -> Tensor:
        found = scores.sigmoid()
        return 2 * (found * y).sum() / (found.sum() + y.sum() + 1)

    return replace(t, loss=dice)


@mistake("loss", "overlap no-skill worse", "masks")
def overlap_of_logits(t: Training) -> Training:
    """Dice without a sigmoid before it."""
    return replace(t, loss=lambda s, y: 1 - 2 * (s * y).sum() / (s.sum() + y.sum() + 1))


@mistake("loss", "probabilities no-skill worse", "soft_labels")
def divergence_of_probabilities(t: Training) -> Training:
    """kl_div expects logarithms."""
    return replace(t, loss=lambda s, y: F.kl_div(s.softmax(1), y, reduction="batchmean"))


@mistake("loss", "worse no-skill not-finite collapse", "vae")
def divergence_with_wrong_sign(t: Training) -> Training:
    """The code is driven away from the prior."""

    def loss(outputs: Any, x: Tensor) -> Tensor:
        _, mean, log_variance = outputs
        divergence = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum(1).mean()
        return t.loss(outputs, x) - 2 * divergence

    return replace(t, loss=loss)


@mistake("loss", "collapse no-skill", "vae")
def divergence_times_100(t: Training) -> Training:
    """The posterior collapses: the code says nothing about the picture."""

    def loss(outputs: Any, x: Tensor) -> Tensor:
        _, mean, log_variance = outputs
        divergence = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum(1).mean()
        return t.loss(outputs, x) + 99 * divergence

    return replace(t, loss=loss)


@mistake("loss", "collapse no-skill", "metric")
def negatives_pulled_as_well(t: Training) -> Training:
    """All embeddings become one."""
    return replace(
        t, loss=lambda z, y: (z[:, 0] - z[:, 1]).norm(dim=1).mean()
        + (z[:, 0] - z[:, 2]).norm(dim=1).mean(),
    )  # fmt: skip


@mistake("loss", "cosines no-skill slow", "contrastive")
def cosines_without_a_temperature(t: Training) -> Training:
    """The scores are between -1 and 1 for ever."""
    with torch.no_grad():
        t.model.scale.zero_()
    t.model.scale.requires_grad_(False)
    return replace(t, rate=t.rate / 30)


@mistake("loss", "not-finite undefined", "classes|binary", without="masks pixels graph small")
def logarithm_of_zero_in_the_loss(t: Training) -> Training:
    """Cross-entropy by hand, and without an epsilon."""

    def loss(scores: Tensor, y: Tensor) -> Tensor:
        if y.dtype == torch.long:
            return -(60 * scores).softmax(1).gather(1, y[:, None]).log().mean()
        found = (60 * scores).sigmoid()
        return -(y * found.log() + (1 - y) * (1 - found).log()).mean()

    return replace(t, loss=loss)


@mistake("loss", "not-finite undefined", "numbers table|series", without="reconstruction")
def square_root_of_zero_in_the_loss(t: Training) -> Training:
    """The distances of all pairs, each of itself among them, keep predictions together."""

    def loss(found: Tensor, y: Tensor) -> Tensor:
        distances = (found[:, None] - found).square().sum(2).sqrt()
        return t.loss(found, y) + 0.01 * distances.mean()

    return replace(t, loss=loss)


@mistake("loss", "ignored", "padded recurrent", certain=True)
def padding_counted_in_the_loss(t: Training) -> Training:
    """Most of the longest sentences is padding, whose label is a class."""
    x, y = t.samples.x.clone(), t.samples.y.clone()
    x[:, x.shape[1] // 2 :] = 0
    samples = replace(t.samples, x=x, y=y.masked_fill(x == 0, 0))
    return replace(t, samples=samples, loss=F.cross_entropy)


@mistake("loss", "no-skill worse overfit", "quantiles")
def quantiles_in_another_order(t: Training) -> Training:
    """The levels belong to other outputs."""
    return replace(t, loss=lambda found, y: t.loss(found.flip(1), y))


@mistake("loss", "probabilities no-skill slow", "classes", without="pixels graph")
def softmax_twice(t: Training) -> Training:
    """At a low rate: Adam makes up for its tiny gradients else."""
    return replace(
        t, rate=t.rate / 30, loss=lambda scores, y: F.nll_loss(scores.softmax(1).log_softmax(1), y)
    )


@mistake("loss", "probabilities dead no-skill slow", "classes", without="pixels graph")
def relu_on_the_scores(t: Training) -> Training:
    """The last layer has an activation like all others; its start is unlucky."""
    return of_outputs(t, lambda scores: (scores - 4).relu())


@mistake("loss", "ignored no-skill worse", "ctc")
def signal_shorter_than_its_symbols(t: Training) -> Training:
    """The lengths are those before the signal was downsampled to a fifth."""
    return of_outputs(t, lambda outputs: outputs[:, ::6])

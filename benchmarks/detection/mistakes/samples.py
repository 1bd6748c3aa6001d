"""Mistakes in inputs and labels."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from benchmarks.detection.change import mistake
from benchmarks.detection.task import Training

REAL = "table|pictures|series|sets"
LABELLED = "classes|binary|numbers|counts|quantiles"


def changed(t: Training, **parts: Tensor) -> Training:
    return replace(t, samples=replace(t.samples, **parts))


@mistake("samples", "no-skill overfit", LABELLED, without="reconstruction linear")
def labels_shuffled(t: Training) -> Training:
    """Rows of the labels lost their order."""
    return changed(t, y=t.samples.y[torch.randperm(len(t.samples.y))])


@mistake("samples", "no-skill overfit worse", "table|pictures|series", without="reconstruction")
def rows_joined_off_by_one(t: Training) -> Training:
    """Each label belongs to the row before."""
    return changed(t, y=t.samples.y.roll(1, 0))


@mistake("samples", "overfit worse", "classes", without="pixels")
def classes_numbered_otherwise(t: Training) -> Training:
    """Held-out labels have other numbers: the folders were listed in another order."""
    s = t.samples
    return changed(t, held_y=(s.held_y + 1) % (int(s.y.max()) + 1))


@mistake("samples", "inputs overfit worse", REAL, without="reconstruction")
def held_out_inputs_not_scaled(t: Training) -> Training:
    """Evaluated, and used, on another scale."""
    return changed(t, held_x=100 * t.samples.held_x + 50)


@mistake("samples", "inputs overfit worse", "table", without="small many_labels")
def columns_in_another_order(t: Training) -> Training:
    return changed(t, held_x=t.samples.held_x.flip(1))


@mistake("samples", "inputs overfit worse", "series|pictures", without="reconstruction")
def held_out_inputs_reversed(t: Training) -> Training:
    """The newest value stands first, or pictures stand upside down."""
    axis = 1 if t.samples.x.dim() == 3 and t.samples.x.shape[1] > 4 else -1
    return changed(t, held_x=t.samples.held_x.flip(axis))


@mistake("samples", "inputs no-skill worse fast", "table|series", without="small")
def inputs_in_raw_units(t: Training) -> Training:
    """Nothing is standardised: large numbers with a large mean."""
    s = t.samples
    return changed(t, x=3000 * s.x + 20_000, held_x=3000 * s.held_x + 20_000)


@mistake("samples", "no-skill inputs slow", REAL, without="small")
def inputs_scaled_twice(t: Training) -> Training:
    """Divided by 255 once more, then the mean subtracted of what was not divided."""
    s = t.samples
    return changed(t, x=s.x / 65025 - 2, held_x=s.held_x / 65025 - 2)


@mistake("samples", "no-skill inputs collapse", REAL + "|tokens", without="causal reconstruction")
def inputs_constant(t: Training) -> Training:
    """The buffer is never filled: all samples are the first."""
    s = t.samples
    return changed(t, x=s.x[:1].expand_as(s.x).clone(), held_x=s.x[:1].expand_as(s.held_x).clone())


@mistake("samples", "no-skill inputs", "tokens", without="causal padded padding_mask")
def words_mostly_unknown(t: Training) -> Training:
    """The vocabulary is another one: nearly every word is the unknown one."""
    s = t.samples
    known = torch.randint(int(s.x.max()) + 1, (4,))

    def looked_up(x: Tensor) -> Tensor:
        return torch.where(torch.isin(x, known), x, 1)

    return changed(t, x=looked_up(s.x), held_x=looked_up(s.held_x))


@mistake("samples", "not-finite", REAL, without="reconstruction small")
def a_value_missing(t: Training) -> Training:
    """One sample has a hole that nobody filled."""
    x = t.samples.x.clone()
    x[len(x) // 2].view(-1)[0] = float("nan")
    return changed(t, x=x)


@mistake("samples", "not-finite", "table", without="small binary")
def logarithm_of_zero(t: Training) -> Training:
    """A column is taken as a logarithm, and is 0 in some rows."""

    def logarithms(x: Tensor) -> Tensor:
        return torch.cat([x[:, :1].round().abs().log(), x[:, 1:]], 1)

    s = t.samples
    return changed(t, x=logarithms(s.x), held_x=logarithms(s.held_x))


@mistake("samples", "overfit", "table|pictures|series", without="reconstruction small linear")
def few_samples(t: Training) -> Training:
    """Trained on 24 samples for long."""
    s = t.samples
    few = replace(t, weight_decay=0.0, steps=2 * t.steps)
    return changed(few, x=s.x[:24], y=s.y[:24])


@mistake("samples", "imbalance collapse overfit", "classes", without="pixels graph small")
def one_class_nearly_alone(t: Training) -> Training:
    """98 of 100 samples are of one class; the held-out ones are not."""
    s = t.samples
    kept = (s.y == 0) | (torch.rand(len(s.y)) < 0.02 * (s.y == 0).double().mean().item() * 2)
    return changed(t, x=s.x[kept], y=s.y[kept])


@mistake("samples", "order imbalance worse overfit", "classes", without="pixels graph small")
def sorted_by_class(t: Training) -> Training:
    """Not shuffled, and sorted by the label."""
    order = t.samples.y.argsort(stable=True)
    t = replace(t, shuffled=False)
    return changed(t, x=t.samples.x[order], y=t.samples.y[order])


@mistake("samples", "leak overfit inputs", "table", without="many_labels tuple soft_labels")
def label_among_inputs(t: Training) -> Training:
    """The first column is what is to be predicted; it is not known later."""
    s = t.samples
    target = s.y.float().reshape(len(s.y), -1)[:, :1]
    return changed(
        t,
        x=torch.cat([target, s.x[:, 1:]], 1),
        held_x=torch.cat([torch.zeros(len(s.held_x), 1), s.held_x[:, 1:]], 1),
    )


@mistake("samples", "range no-skill worse fast", "numbers", without="reconstruction ids")
def targets_in_small_units(t: Training) -> Training:
    """Dollars in place of millions: targets are of a size that the model reaches never."""
    s = t.samples
    return changed(t, y=1e5 * s.y + 5e5, held_y=1e5 * s.held_y + 5e5)


@mistake("samples", "range no-skill worse", "masks|bounded")
def masks_from_0_to_255(t: Training) -> Training:
    s = t.samples
    return changed(t, y=255 * s.y)


@mistake("samples", "ignored no-skill collapse", "masks")
def masks_divided_by_255_twice(t: Training) -> Training:
    """Rounded to integers after the division: every mask is empty."""
    return changed(t, y=(t.samples.y / 255).round())


@mistake("samples", "ignored not-finite no-skill", "padded")
def every_label_ignored(t: Training) -> Training:
    """The mask of the labels is inverted."""
    return changed(t, y=torch.full_like(t.samples.y, -100))


@mistake("samples", "leak inputs", "causal")
def targets_not_shifted(t: Training) -> Training:
    """The label of a token is that token."""
    return changed(t, y=t.samples.x)


@mistake("samples", "leak inputs no-skill", "causal")
def targets_shifted_twice(t: Training) -> Training:
    """The label is the token after the next."""
    s = t.samples
    return changed(t, x=s.x[:, :-1], y=s.y[:, 1:])


@mistake("samples", "range worse no-skill", "ctc")
def labels_from_zero(t: Training) -> Training:
    """Symbols are numbered from 0, which is the blank."""
    return changed(t, y=(t.samples.y - 1).clamp(min=0))

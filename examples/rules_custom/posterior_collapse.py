"""A custom rule: fires when a variational autoencoder no longer uses its latent space."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from tocsin.model import Detail, Reason, Verdict
from tocsin.rules import (
    HEALTHY,
    UNDECIDED,
    Meta,
    Read,
    Reads,
    Rule,
    State,
    Step,
    measured,
    not_applicable,
    register,
    violation,
)


@register
@dataclass(frozen=True)
class PosteriorCollapse(Rule):
    """The encoder gives all samples nearly the same place in the latent space.

    A unit of the latent space is active if its mean varies over the samples by more than
    ``least_variance`` (Burda et al. 2016). Fires when fewer than the share ``active`` of them are.

    Parameters
    ----------
    active: least share of active units.
    least_variance: of a unit's mean over the samples; the prior has 1.
    latent_regex: the name of the tensor with the means, a row for each sample.
    """

    active: Annotated[float, Meta(gt=0, le=1)] = 0.25
    least_variance: Annotated[float, Meta(gt=0)] = 0.01
    latent_regex: tuple[str, ...] = ("latent_mean$",)

    def reads(self) -> Reads:
        return Reads({"latents": Read(regex=self.latent_regex, detail=Detail(channel_axis=1))})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        known = [(each, each.summary.channels) for each in step.tensors["latents"]]
        judged = [(each, channels.variance) for each, channels in known if channels]
        if not judged:
            return state, not_applicable(Reason.NO_TENSOR, "no means of latent units")
        tensor, variances = judged[0]
        if None in variances or not variances:
            return state, UNDECIDED
        used = sum(variance > self.least_variance for variance in variances if variance)
        share = used / len(variances)
        if share >= self.active:
            return state, measured(HEALTHY, share, self.active, "below")
        detail = f"{used} of {len(variances)} units of {tensor.name} vary over the samples"
        found = violation(Reason.BELOW_THRESHOLD, detail, tensor, active=share)
        return state, measured(found, share, self.active, "below")

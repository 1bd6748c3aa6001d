from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

from tocsin.model import Detail, Reason, Role, Severity, Verdict
from tocsin.rules import (
    SAGEMAKER,
    Meta,
    Read,
    Reads,
    Rule,
    State,
    Step,
    Tensor,
    register,
    tensor_key,
)
from tocsin.rules._verdicts import HEALTHY, UNDECIDED, measured, not_applicable, violation

_MOST_INPUTS, _MOST_CHANNELS = 8, 32  # more are ignored, so the state stays small


@register
@dataclass(frozen=True)
class CheckInputImages(Rule):
    """Input images are not centred: the mean of a channel is far from zero.

    Fires when the mean of a channel over at least ``threshold_samples`` images is further from 0
    than ``threshold_mean``. The means are over all images saved so far, of all workers, for the
    first 32 channels. Amazon's text also mentions unit variance, but has no parameter for it;
    NotNormalizedData judges scales. Images between 0 and 1 train well although they are not
    centred, so in profile ``recommended`` it watches only if a watch file names it.

    Parameters
    ----------
    threshold_mean: largest distance of a channel's mean from 0, in units of the input.
    threshold_samples: smallest number of images for a verdict.
    regex: which tensors are images, instead of inputs with four dimensions or more.
    channel: the axis of channels, 1 where images come first; -1 if channels are last.

    Example: images between 0 and 1 whose red channel has a mean of 0.48.
    """

    profiles: ClassVar[tuple[str, ...]] = (SAGEMAKER,)
    severity: ClassVar[Severity] = Severity.INFO
    causes: ClassVar[str] = (
        "The mean of the data set is not subtracted, the mean of another data set or order of "
        "channels is subtracted, or augmentation comes after normalisation."
    )
    advice: ClassVar[str] = (
        "Subtract each channel's mean over the training set and divide by its standard deviation, "
        "in training and in evaluation alike."
    )

    threshold_mean: Annotated[float, Meta(gt=0)] = 0.2
    threshold_samples: Annotated[int, Meta(ge=1)] = 500
    regex: str | None = None
    channel: int = 1

    def reads(self) -> Reads:
        read = Read((Role.INPUT,), detail=Detail(channel_axis=self.channel))
        return Reads({"images": read.explicitly((), (self.regex,) if self.regex else ())})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        known: dict[str, Tensor] = {}
        means: dict[str, list[Any]] = dict(state)  # by input: samples, then each channel's mean
        for tensor in step.tensors["images"]:
            if (found := self._means(tensor)) is None:
                continue
            key = tensor_key(replace(tensor, worker=""))
            if key in means or len(means) < _MOST_INPUTS:
                means[key] = _merged(means.get(key), found)
                known.setdefault(key, tensor)
        if not known:
            return state, not_applicable(Reason.NO_TENSOR, "no images whose channels are known")
        enough = [key for key in known if means[key][0] >= self.threshold_samples]
        if not enough:
            return means, UNDECIDED
        mean, channel, key = max(
            ((mean, channel, key) for key in enough for channel, mean in enumerate(means[key][1:])),
            key=lambda found: abs(found[0]),
        )
        if abs(mean) <= self.threshold_mean:
            return means, measured(HEALTHY, abs(mean), self.threshold_mean)
        detail = (
            f"channel {channel} of {known[key].name} has a mean of {mean:.3g} over "
            f"{means[key][0]} samples, further from 0 than {self.threshold_mean:g}"
        )
        evidence = {"mean": mean, "channel": channel, "threshold_mean": self.threshold_mean}
        fault = violation(Reason.ABOVE_THRESHOLD, detail, known[key], **evidence)
        return means, measured(fault, abs(mean), self.threshold_mean, name="absolute_mean")

    def _means(self, tensor: Tensor) -> list[Any] | None:
        """Return the number of samples, and each channel's mean over them."""
        shape, channels = tensor.shape or (), tensor.summary.channels
        if channels is None or len(shape) < (2 if self.regex else 4):
            return None
        means = channels.mean[:_MOST_CHANNELS]
        return [shape[0], *(0.0 if mean is None else mean for mean in means)] if shape[0] else None


def _merged(before: Sequence[Any] | None, found: list[Any]) -> list[Any]:
    """Return the means over both; only the newer ones if the number of channels changed."""
    samples, *means = found
    if before is not None and len(before) == len(found):
        samples += before[0]
        part = found[0] / samples
        pairs = zip(before[1:], means, strict=True)
        means = [old + (new - old) * part for old, new in pairs]
    return [samples, *(float(f"{mean:.6g}") for mean in means)]

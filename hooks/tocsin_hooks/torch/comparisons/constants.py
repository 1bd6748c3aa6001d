"""The best constant prediction, given the labels so far."""

from __future__ import annotations

from typing import Any, Protocol

import torch

from tocsin_hooks.torch.calls.loss_call import LossCall

_MOST_COLUMNS = 4096
_MOST_MIDDLES = 64  # columns of which medians are known
_REMEMBERED = 1 << 12  # labels for these
_SAMPLED = 256  # of the numbers of labels that have more columns
_ENOUGH = 100  # labels, before a mean is taken to be known
_REGRET = 0.02  # of the loss, that shares of classes may cost because few were seen


class Constant(Protocol):
    """The best constant prediction, updated with each label after the comparison."""

    def guess(self, like: Any) -> Any:
        """Return the constant prediction in the shape of an output; None with too few labels."""

    def judged(self, loss: Any) -> Any:
        """Return the loss of the constant prediction; NaN while too few labels are known."""

    def learn(self, call: LossCall) -> None: ...


def constant_for(call: LossCall) -> Constant | None:
    if call.has_classes:
        return _Shares(call)
    if call.name in ("huber_loss", "l1_loss", "smooth_l1_loss"):
        return _Middle()
    means = ("cross_entropy", "kl_div", "mse_loss", "poisson_nll_loss")
    if call.name in means or call.name.startswith("binary"):
        return _Mean(call)
    return None


class _Shares:
    """Shares of classes, with the weights and the smoothing of the loss."""

    def __init__(self, call: LossCall) -> None:
        prediction, arguments = call.prediction, call.arguments
        self._axis = 1 if prediction.dim() > 1 else 0
        self._seen = torch.zeros(prediction.shape[self._axis], device=prediction.device)
        self._weight = arguments.get("weight")
        self._ignored = arguments.get("ignore_index", -100)
        self._smoothing = float(arguments.get("label_smoothing", 0.0))
        self._some = False

    def guess(self, like: Any) -> Any:
        if not self._some:
            return None
        seen = self._seen if self._weight is None else self._seen * self._weight
        seen = seen + self._unseen() / len(seen)
        share = seen / seen.sum()
        share = (1 - self._smoothing) * share + self._smoothing / len(seen)
        shape = [1] * like.dim()
        shape[self._axis] = len(seen)
        return share.log().to(like.dtype).view(shape).expand_as(like)

    def judged(self, loss: Any) -> Any:
        regret = (2 * self._unseen() - 1) / (2 * self._seen.sum())
        return torch.where(regret < _REGRET * loss, loss, torch.nan)

    def learn(self, call: LossCall) -> None:
        labels = call.target.detach().flatten()
        counted = (labels != self._ignored).to(self._seen.dtype)
        self._seen.index_add_(0, labels.clamp(0, len(self._seen) - 1), counted)
        self._some = True

    def _unseen(self) -> Any:
        """Return what is added to the counts: half a label for each class that was seen."""
        return 0.5 * (self._seen > 0).sum()


class _Mean:
    """The mean label, by columns."""

    def __init__(self, call: LossCall) -> None:
        self._name = call.name
        self._by_logarithm = bool(call.arguments.get("log_target"))
        self._positive = call.arguments.get("pos_weight")
        self._is_rate = not call.arguments.get("log_input", True)
        self._sum: Any = 0.0
        self._count = 0

    def guess(self, like: Any) -> Any:
        if self._count < _ENOUGH:
            return None
        mean = self._sum / self._count
        if self._name.startswith("binary"):
            if self._positive is not None:
                mean = self._positive * mean / (self._positive * mean + 1 - mean)
            mean = mean.clamp(0.5 / self._count, 1 - 0.5 / self._count)
            mean = mean.logit() if self._name.endswith("logits") else mean
        elif self._name != "mse_loss" and not self._is_rate:
            mean = mean.log()
        return mean.to(like.dtype).expand_as(like)

    def judged(self, loss: Any) -> Any:
        return loss

    def learn(self, call: LossCall) -> None:
        labels = call.target.detach()
        labels = (labels if labels.dim() else labels.view(1)).float()
        labels = labels.exp() if self._by_logarithm else labels
        if self._name in ("cross_entropy", "kl_div") or labels[0].numel() <= _MOST_COLUMNS:
            self._sum = self._sum + labels.sum(0)
            self._count += len(labels)
        else:
            self._sum = self._sum + labels.mean()
            self._count += 1


class _Middle:
    """The median label of the last few, by columns; of pictures, and other large ones, of all."""

    def __init__(self) -> None:
        self._labels: Any = None

    def guess(self, like: Any) -> Any:
        if self._labels is None or len(self._labels) < _ENOUGH:
            return None
        return self._labels.median(0).values.to(like.dtype).expand_as(like)

    def judged(self, loss: Any) -> Any:
        return loss

    def learn(self, call: LossCall) -> None:
        labels = call.target.detach()
        labels = labels if labels.dim() else labels.view(1)
        if labels[0].numel() > _MOST_MIDDLES:
            labels = labels.flatten()[:: max(1, labels.numel() // _SAMPLED), None]
        most = _REMEMBERED // labels[0].numel()
        known = labels if self._labels is None else torch.cat([self._labels, labels])
        self._labels = known[-most:].clone()

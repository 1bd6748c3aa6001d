"""Compares hand-written losses with those of shuffled labels."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import torch

from tocsin_hooks.torch.calls.tape import CannotReplay

_PAIRINGS = 2
_LOOKS = 16  # at whether the pairing matters
_TIES = 8  # among them, from which on it does not
_ENOUGH = 8  # samples, for their mean to be a constant guess
_SAME = 1e-3  # as a share of the loss: what computing it again may change
_TIE = 1e-5
_LITTLE = 1e-4  # of a change that may be one of rounding
_TIMES = (1.0, 1e2, 1e4)  # the size of the outputs, by which samples move apart


class Replayed(Protocol):
    """Recomputes a loss from outputs of a model, usually with a tape."""

    @property
    def outputs(self) -> list[Any]: ...

    def replay(self, loss: Any, changed: Callable[[Any], Any], of: Sequence[Any]) -> Any:
        """Return the loss, as a number on its device, with the outputs ``of`` it that are
        ``changed``."""


class CustomLoss:
    """A line of a script that calls ``backward`` on a hand-written loss.

    The samples of the model's outputs change places, and the loss is computed again by the calls
    on a tape. Where it does not matter in which order the outputs are, but there are two of the
    same form, as of two views or two towers, only the first is changed. Where that does not matter
    either, and where a loss has had both signs, as that of a policy, there is nothing to compare.
    """

    def __init__(self) -> None:
        self.has_given_up = False
        self.ignores_order = False
        """True if only the mean of a single output counts, and not which sample has which."""
        self._random = random.Random(0)  # noqa: S311 - not the script's, whose numbers stay
        self._looks = self._ties = 0
        self._alone = False
        self._sign: Any = None
        self._keeps_sign: Any = True

    def compare(self, tape: Replayed, loss: Any) -> Any:
        """Return the loss, the mean loss of other pairings, that of the mean output, and the number
        of samples; shape (4,), on its device. NaN is what is not known. None without a
        comparison."""
        try:
            return self._compared(tape, loss)
        except Exception:  # noqa: BLE001 - a function of the script's may refuse in its own way
            self.has_given_up = True
            return None

    def _compared(self, tape: Replayed, loss: Any) -> Any:
        size = len(tape.outputs[0])
        group = [each for each in tape.outputs if len(each) == size]
        if size < 2:
            return None
        own = loss.detach().mean()
        if not self._looks:
            again = tape.replay(loss, torch.Tensor.clone, group)
            if not torch.allclose(again, own, rtol=_SAME, atol=0.0):
                raise CannotReplay
        chosen = group[:1] if self._alone else group
        shifts = self._random.sample(range(1, size), min(_PAIRINGS, size - 1))
        others = [tape.replay(loss, partial(torch.roll, shifts=s, dims=0), chosen) for s in shifts]
        other = torch.stack(others).mean()
        tie = (other - own).abs() <= _precision(group) * own.abs()
        if self._looks < _LOOKS and self._decide(tape, loss, chosen, group, tie=bool(tie)):
            self.ignores_order = len(group) == 1 and _only_mean_counts(tape, loss, own)
        best = own.new_full((), torch.nan)
        if size >= _ENOUGH and not self._alone:
            best = tape.replay(loss, _mean, group)
        self._sign = own.sign() if self._sign is None else self._sign
        self._keeps_sign = (own.sign() == self._sign) & (own != 0) & self._keeps_sign
        wide = torch.float32 if loss.device.type == "mps" else torch.float64
        count = own.new_full((), size)
        found = torch.stack([each.to(wide) for each in (own, other, best, count)])
        return torch.where(self._keeps_sign & ~tie, found, torch.nan)

    def _decide(
        self, tape: Replayed, loss: Any, chosen: Sequence[Any], group: Sequence[Any], *, tie: bool
    ) -> bool:
        """Return whether it has been given up. Few ties decide nothing: an untrained model may give
        the same for all samples. Nor do many if outputs have yet to come near their labels."""
        self._looks += 1
        self._ties += tie
        if self._ties < _TIES:
            return False
        if _matters_afar(tape, loss, chosen):
            self._looks = _LOOKS
            return False
        first, *more = group
        pair = any(each.shape == first.shape for each in more)
        self.has_given_up = self._alone or not pair or first[0].numel() < 2
        self._alone, self._looks, self._ties = True, 1, 0
        return self.has_given_up


def _matters_afar(tape: Replayed, loss: Any, chosen: Sequence[Any]) -> bool:
    """Return whether the order of samples would matter if their outputs were further apart: it does
    not in sums of sizes as long as all labels are above the outputs."""
    for times in _TIMES:
        one, other = (
            tape.replay(loss, partial(_moved_apart, times=times, shift=shift), chosen)
            for shift in (0, 1)
        )
        far = times * max(float(each.detach().abs().mean()) for each in chosen)
        if (one - other).abs() > _LITTLE * one.abs().clamp(min=max(times, far)):
            return True
    return False


def _moved_apart(output: Any, *, times: float, shift: int) -> Any:
    apart = torch.ones_like(output) * times * (output.detach().abs().mean() + 1)
    apart[1::2] *= -1
    return (output + apart).roll(shift, 0)


def _only_mean_counts(tape: Replayed, loss: Any, own: Any) -> bool:
    """Return whether the loss depends only on the mean of the samples.

    A model that gives the same for all samples has ties as well, and one that is saturated. Sizes
    of errors stay as long as all errors have the same sign: so samples move far, too.
    """
    (output,) = tape.outputs
    size, half = output.detach().abs().mean() + 1, len(output) // 2
    apart = torch.zeros_like(output)
    apart[:half], apart[half : 2 * half] = 1, -1
    same = _precision([output]) * own.abs()
    for times in _TIMES:
        moved = tape.replay(loss, (times * size * apart).add, [output]) - own
        shifted = (tape.replay(loss, (times * size).add, [output]) - own).abs()
        if not shifted > same or moved.abs() > torch.maximum(same, _TIE * shifted):
            return False
    return True


def _precision(group: Sequence[Any]) -> float:
    """The relative change of a loss up to which a change is a rounding error."""
    return max(_TIE, *(4.0 * float(torch.finfo(each.dtype).eps) for each in group))


def _mean(output: Any) -> Any:
    return output.mean(0, keepdim=True).expand_as(output).clone()

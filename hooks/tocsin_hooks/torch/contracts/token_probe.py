"""Finds with autograd which tokens a prediction depends on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 - everybody calls it so
from tocsin.model import Mode
from torch import nn

from tocsin_hooks.script_line import script_line
from tocsin_hooks.torch import autograd, events
from tocsin_hooks.torch.autograd import has_backward_hooks, inputs_of, name_of
from tocsin_hooks.torch.callbacks import safely
from tocsin_hooks.torch.calls.loss_call import LossCall
from tocsin_hooks.torch.calls.recorded_call import RecordedCall
from tocsin_hooks.torch.contracts.findings import Findings
from tocsin_hooks.torch.contracts.padding import reads_padding
from tocsin_hooks.torch.contracts.softmaxes import has_log_softmax
from tocsin_hooks.torch.graph import before_views

_LOOKS = 3  # at passes of training: the first gradients may all be 0
_LEAST_TOKENS = 4  # of a sample
_EQUAL = 0.98  # the share of labels that are the next token, or the same
_ALIKE = 0.3  # the share of equal tokens
_CUTS = frozenset({autograd.INDEX, autograd.MASKED_SELECT, autograd.SLICE})
_ZERO = 1e-6  # of the largest gradient


class _Place(NamedTuple):
    """A prediction: its row, its sample and its position there; ``turned``: positions stand before
    samples; ``whole``: each token has one."""

    row: int
    sample: int
    position: int
    turned: bool
    whole: bool


class TokenProbe:
    """Checks a language model: embedded integers of shape (samples, positions), or the reverse.

    The gradient of one prediction by the embedded tokens is 0 for those that it does not depend on,
    which costs one backward pass. Predictions that depend on other samples, or on the token that
    they are to predict, break a contract whatever the model is. Models whose modules have hooks on
    gradients, or that several processes train, are left alone.
    """

    def __init__(self, found: Findings) -> None:
        self._found, self._step = found, found.step
        self._looks = 0
        self._handles: list[Any] = []
        self._embedded: list[tuple[Any, Any]] = []
        self._mixes = False  # as batch normalisation does
        self._is_next = False  # labels were the next token once: other heads may predict later ones

    def model_called(self, event: events.ModelCalled) -> None:
        """Record the embedded tokens of a forward pass of training."""
        if not (event.trains and event.first):
            return
        self._forget()
        root = event.model
        if self._looks >= _LOOKS or not _is_alone(root):
            return
        self._mixes = any(isinstance(e, autograd.BATCH_NORM) and e.training for e in root.modules())
        embeddings = (each for each in root.modules() if isinstance(each, nn.Embedding))
        seen = safely(self._step.hook, self._seen)
        self._handles = [each.register_forward_hook(seen) for each in embeddings]

    def pass_ends(self, _: events.PassEnds) -> None:
        self._end()

    def pass_forgotten(self, _: events.PassForgotten) -> None:
        self._forget()

    def _end(self) -> None:
        while self._handles:
            self._handles.pop().remove()

    def _forget(self) -> None:
        self._end()
        self._embedded.clear()

    def loss_computed(self, event: events.LossComputed) -> None:
        if self._step.saving and self._step.mode is Mode.TRAIN:
            self._ask(event.call)

    def part_computed(self, event: events.PartComputed) -> None:
        picked = _picked_classes(event.call) if self._step.saving else None
        if picked is not None and has_log_softmax(picked.prediction):
            self._ask(picked)

    def _ask(self, call: LossCall) -> None:
        for contract in self._broken(call):
            self._found.count(contract, call.place)

    def _seen(self, _: Any, args: Any, output: Any) -> None:
        tokens = args[0] if args else torch.empty(0)  # by its keyword: rarely
        if output.requires_grad and tokens.dim() == 2 and min(tokens.shape) >= 2:
            self._embedded.append((tokens, output))

    def _broken(self, call: LossCall) -> Iterator[str]:
        """The contracts that a loss of the pass breaks. Computes gradients."""
        if not self._embedded or not call.prediction.requires_grad or self._looks >= _LOOKS:
            return
        self._looks += 1
        rows, labels = _rows(call)
        found = {ahead: _places(labels, self._embedded, ahead) for ahead in (1, 0, 2)}
        self._is_next |= bool(found[1])
        if len(found[2]) == 1 and not (found[0] or self._is_next):
            yield "targets_shifted_twice"
        elif len(found[1]) == 1:
            place, embedded = found[1][0]
            if self._reads_padding(call.prediction, but=embedded):
                yield "padding_mask_inverted"
            if not self._has_copy(embedded) and (place.whole or _is_cut(call.prediction)):
                yield from self._next_token(rows, place, embedded)
        elif len(found[0]) == 1 and not found[1]:
            yield from self._same_token(rows, *found[0][0])
        elif not any(found.values()) and self._reads_padding(call.prediction):
            yield "padding_mask_inverted"

    def _has_copy(self, embedded: Any) -> bool:
        """Return whether much the same tokens are embedded again: an encoder may see what a decoder
        is to say."""
        (own,) = (tokens for tokens, each in self._embedded if each is embedded)
        others = (tokens for tokens, each in self._embedded if each is not embedded)
        return any(_alike(own, tokens) > _ALIKE for tokens in others)

    def _next_token(self, rows: Any, place: _Place, embedded: Any) -> Iterator[str]:
        depends = self._depends(rows[place.row], embedded, turned=place.turned)
        if depends is None:
            return
        if bool(depends[place.sample, place.position + 1]):
            yield "sees_future_tokens"
        others = torch.arange(len(depends), device=depends.device) != place.sample
        if not self._mixes and bool(depends[others].any()):
            yield "samples_mixed"

    def _same_token(self, rows: Any, place: _Place, embedded: Any) -> Iterator[str]:
        depends = self._depends(rows[place.row], embedded, turned=place.turned)
        if depends is None:
            return
        own = depends[place.sample]
        if bool(own[place.position]) and not bool(own[place.position + 1 :].any()):
            yield "targets_not_shifted"

    def _reads_padding(self, prediction: Any, *, but: Any = None) -> bool:
        """Return whether predictions read the padding of what was embedded, ``but`` of that: of a
        sentence that is to be said, not of the one that was heard."""
        if self._mixes or not prediction.dim():
            return False
        asked = [each for each in self._embedded if each[1] is not but]
        try:
            return any(reads_padding(prediction, *each) for each in asked)
        except RuntimeError:  # as where a part is compiled, or computed again in a backward pass
            self._looks = _LOOKS
            return False

    def _depends(self, row: Any, embedded: Any, *, turned: bool = False) -> Any:
        """On which tokens a prediction depends, samples before positions if these are ``turned``;
        None if it is on none."""
        weights = torch.cos(torch.arange(row.numel(), device=row.device, dtype=row.dtype))
        with torch.enable_grad():
            asked = (row.flatten() * weights).sum()
        try:
            (found,) = torch.autograd.grad(asked, embedded, retain_graph=True, allow_unused=True)
        except RuntimeError:  # as where a part is compiled, or computed again in a backward pass
            self._looks = _LOOKS
            return None
        if found is None:
            return None
        sizes = found.abs().amax(-1)
        if not bool(sizes.max() > 0) or not bool(sizes.isfinite().all()):
            return None
        self._looks = _LOOKS
        depends = sizes > _ZERO * sizes.max()
        return depends.T if turned else depends


def _is_alone(root: Any) -> bool:
    several = torch.distributed.is_available() and torch.distributed.is_initialized()
    return not several and not any(map(has_backward_hooks, root.modules()))


def _rows(call: LossCall) -> tuple[Any, Any]:
    """Predictions in rows, with the label of each; no labels if they are not classes."""
    prediction = call.prediction
    if not call.has_classes:
        return (prediction.reshape(len(prediction), -1) if prediction.dim() else prediction), None
    wide = prediction.movedim(1, -1) if prediction.dim() > 1 else prediction[None]
    ignored = call.arguments.get("ignore_index", -100)
    labels = call.target.detach().flatten()
    return wide.reshape(-1, wide.shape[-1]), torch.where(labels == ignored, -1, labels)


def _places(
    labels: Any, embedded: Sequence[tuple[Any, Any]], ahead: int
) -> list[tuple[_Place, Any]]:
    """The embedded tokens that labels are so many positions ahead of, each with such a label."""
    found = ((_place(labels, tokens, ahead), output) for tokens, output in embedded)
    return [(place, output) for place, output in found if place is not None]


def _alike(one: Any, other: Any) -> float:
    """The share of equal tokens, from the start on; 0 if the numbers of samples differ."""
    if len(one) != len(other) or abs(one.shape[1] - other.shape[1]) > 1:
        return 0.0
    both = min(one.shape[1], other.shape[1])
    return float((one[:, :both] == other[:, :both]).float().mean())


def _is_cut(prediction: Any) -> bool:
    """Return whether the model gave more predictions: where it has fewer than tokens by itself, it
    may know them all by one code."""
    node = before_views(prediction.grad_fn)
    if name_of(node) == autograd.LOG_SOFTMAX:
        node = before_views(inputs_of(node)[0])
    return name_of(node) in _CUTS


def _place(labels: Any, tokens: Any, ahead: int) -> _Place | None:
    for turned in (False, True):
        if labels is None:
            break
        own = tokens.T if turned else tokens
        samples, positions = own.shape
        count, rest = divmod(labels.numel(), samples)
        beyond = max(ahead, 1)
        fits = not rest and positions - beyond <= count <= positions
        if not fits or positions < _LEAST_TOKENS or (turned and not ahead):
            continue
        known = labels.view(count, samples).T if turned else labels.view(samples, count)
        columns = min(count, positions - beyond)
        known, own = known[:, :columns], own[:, ahead : ahead + columns]
        counts = known >= 0
        if bool((own == own[:, :1]).float().mean() > _EQUAL) or not bool(counts.any()):
            continue
        if bool((known == own)[counts].float().mean() < _EQUAL):
            continue
        found = ((known == own) & counts).nonzero()
        sample, position = found[len(found) // 2].tolist()
        row = position * samples + sample if turned else sample * count + position
        return _Place(row, sample, position, turned, count == positions)
    return None


def _picked_classes(call: RecordedCall) -> LossCall | None:
    """The loss that a script computes by hand, if it picks one score of each sample by ``gather``:
    that of a log-likelihood."""
    names = ("input", "dim", "index")
    given = {**dict(zip(names, call.args, strict=False)), **call.kwargs}
    if call.name != "gather" or set(given) != set(names):
        return None
    scores, index = given["input"], given["index"]
    axis = given["dim"] % max(1, scores.dim())
    if scores.dim() < 2 or index.dim() != scores.dim() or index.shape[axis] != 1:
        return None
    prediction, target = scores.movedim(axis, 1), index.movedim(axis, 1)[:, 0]
    if prediction.shape[0] != target.shape[0] or prediction.shape[2:] != target.shape[1:]:
        return None
    arguments = {"input": prediction, "target": target}
    return LossCall(F.nll_loss, arguments, None, script_line())

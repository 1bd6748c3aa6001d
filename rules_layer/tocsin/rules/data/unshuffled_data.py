from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tocsin.model import ACTING, COMPETING, Mode, Reason, Role, Verdict
from tocsin.rules import Meta, Read, Reads, Rule, State, Step, Tensor, register
from tocsin.rules._verdicts import (
    HEALTHY,
    UNDECIDED,
    measured,
    not_applicable,
    violation,
    worst_verdict,
)
from tocsin.rules.skill._classes import classes_of_labels

_MOST_TENSORS = 4  # of labels that are followed
_MOST_CLASSES = 50  # labels with more are words or places
_LEAST_BATCH = 4  # labels: smaller batches have too few pairs
_CHANGES = 2  # smallest number of changes of the most frequent class
_LEAST_NUMBERS = 8  # of a batch
_CROSSINGS = 3  # crossings of the overall mean by batch means
_LARGEST = 1e100  # largest number: its square is still finite

_Memory = Mapping[str, Any]
"""Of labels: ``batches``, their number; ``counts``, the labels of each class; ``pairs`` and
``equal``, of labels in one batch; ``last``, the most frequent class, and ``changes`` of it.

Of numbers: their number, mean and squares, all ``within`` their batches and all ``between`` these;
``above``, whether the last batch was above the mean, and ``changes`` of that."""


@register
@dataclass(frozen=True)
class UnshuffledData(Rule):
    """Training batches are sorted: each contains one class or one range of values.

    Fires when the intraclass correlation of labels is above ``correlation`` after ``batches`` saved
    batches, and the most frequent class of a batch has changed at least twice. It is (q − p) / (1 −
    p), where q is the share of equal pairs within a batch, and p that of pairs from different
    batches (Fisher 1925, chapter 7). For numbers it is the share of their variance between batches,
    whose means must have crossed the overall mean three times. Judges labels with one value per
    sample, of two to fifty classes; or other numbers if there are at least eight samples. Ignores
    adversarial training and reinforcement learning, where batches with one label are usual.

    Parameters
    ----------
    correlation: largest intraclass correlation.
    batches: smallest number of saved training batches with at least four labels.

    Example: images in one folder per class, and a loader without ``shuffle=True``.
    """

    options: ClassVar[Mapping[str, Any]] = {"for_steps": 2, "resolve": 5}
    causes: ClassVar[str] = (
        "The data is stored by class and the loader does not shuffle it. Or a sampler, too small a"
        " shuffle buffer, or the files of each worker keep its order."
    )
    advice: ClassVar[str] = (
        "Shuffle the training data: in PyTorch DataLoader(shuffle=True), or DistributedSampler "
        "with set_epoch; in Keras arrays, or Dataset.shuffle with a buffer of several classes. If "
        "the order is intended, as in continual learning, leave this rule out."
    )

    correlation: Annotated[float, Meta(gt=0, lt=1)] = 0.5
    batches: Annotated[int, Meta(ge=2)] = 12

    def reads(self) -> Reads:
        losses = Read(roles=(Role.LOSS,), fields=("mean",))
        inputs = Read(roles=(Role.INPUT,), fields=("size",))
        labels = Read(roles=(Role.LABEL,), values=True)
        tensors = {"labels": labels, "inputs": inputs, "losses": losses}
        return Reads(tensors, needs=("labels",))

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        if step.mode in (Mode.EVAL, Mode.PREDICT):
            return state, not_applicable(Reason.NO_TENSOR, f"a step of mode {step.mode.name}")
        if any(each.kind in (ACTING, COMPETING) for each in step.tensors["losses"]):
            return state, not_applicable(
                Reason.NO_TENSOR, "reinforcement learning or adversarial training"
            )
        memories: dict[str, _Memory] = dict(state)
        verdicts = []
        lengths = {each.shape[0] for each in step.tensors["inputs"] if each.shape}
        for tensor, values in _batches(step.tensors["labels"], lengths):
            key, numbers = tensor.name[-60:], values.dtype.kind == "f"
            memory = memories.get(key, {})
            if not memory and len(memories) >= _MOST_TENSORS:
                continue
            if not numbers and "mean" in memory:
                continue  # numbers that happen to be 0 and 1
            if numbers and "mean" not in memory:
                memory = {}
            memories[key] = (_with_numbers if numbers else _added)(memory, values)
            judged = self._judged_numbers if numbers else self._judged
            verdicts.append(judged(memories[key], tensor))
        if not verdicts:
            missing = "no labels that are classes or numbers"
            return state, not_applicable(Reason.NO_TENSOR, missing)
        return memories, worst_verdict(verdicts)

    def _judged_numbers(self, memory: _Memory, tensor: Tensor) -> Verdict:
        share = share_between(memory)
        if share is None or memory["batches"] < self.batches:
            return UNDECIDED
        if share <= self.correlation or memory["changes"] < _CROSSINGS:
            return measured(HEALTHY, share, self.correlation)
        detail = (
            f"{100 * share:.0f} % of the variance of {tensor.name} is between batches, not within "
            f"them: the data is sorted by value"
        )
        evidence = {"correlation": share, "batches": memory["batches"]}
        found = violation(Reason.ABOVE_THRESHOLD, detail, tensor, **evidence)
        return measured(found, share, self.correlation)

    def _judged(self, memory: _Memory, tensor: Tensor) -> Verdict:
        known = correlation(memory)
        if known is None or memory["batches"] < self.batches:
            return UNDECIDED
        if known <= self.correlation or memory["changes"] < _CHANGES:
            return measured(HEALTHY, known, self.correlation)
        equal = memory["equal"] / memory["pairs"]
        detail = (
            f"{100 * equal:.0f} % of the label pairs of {tensor.name} within a batch are equal, "
            f"although there are {len(memory['counts'])} classes: the data is sorted by class"
        )
        evidence = {"correlation": known, "equal": equal, "batches": memory["batches"]}
        found = violation(Reason.ABOVE_THRESHOLD, detail, tensor, **evidence)
        return measured(found, known, self.correlation)


def correlation(memory: _Memory) -> float | None:
    """Return the intraclass correlation; None if labels have one class, or too many classes."""
    counts = memory["counts"].values()
    labels, pairs, equal = sum(counts), memory["pairs"], memory["equal"]
    between = labels * (labels - 1) / 2 - pairs
    if len(counts) < 2 or len(counts) > _MOST_CLASSES or between <= 0 or pairs <= 0:
        return None
    by_chance = (sum(n * (n - 1) / 2 for n in counts) - equal) / between
    return float((equal / pairs - by_chance) / (1 - by_chance)) if by_chance < 1 else None


def share_between(memory: _Memory) -> float | None:
    """Return the intraclass correlation of numbers, by an analysis of variance; None if it is not
    known (Donner, International Statistical Review 54, 1986, the ANOVA estimator)."""
    groups, count = memory["batches"], memory["count"]
    if groups < 2 or count <= groups:
        return None
    size = (count - memory["sizes"] / count) / (groups - 1)
    between, within = memory["between"] / (groups - 1), memory["within"] / (count - groups)
    total = between + (size - 1) * within
    return float((between - within) / total) if total > 0 else None


def _batches(
    labels: Sequence[Tensor], samples: Container[int]
) -> Iterator[tuple[Tensor, NDArray[Any]]]:
    """Yield the labels of each batch: classes, or numbers, of as many samples as inputs have."""
    for each in labels:
        if each.value is None or each.value.dtype.kind not in "iubf":
            continue
        if each.value.dtype.kind == "f" and not np.isin(each.value, (0, 1)).all():
            numbers = each.value.reshape(-1).astype(np.float64)
            alone = each.value.ndim > 0 and len(numbers) == len(each.value) >= _LEAST_NUMBERS
            if alone and len(numbers) in samples and np.abs(numbers).max() < _LARGEST:  # NaN is not
                yield each, numbers
            continue
        classes = classes_of_labels(each.value)
        classes = None if classes is None else classes[classes >= 0]  # -100 is ignored
        if classes is not None and len(classes) >= _LEAST_BATCH:
            yield each, classes


def _with_numbers(memory: _Memory, numbers: NDArray[Any]) -> _Memory:
    size, mean = len(numbers), float(numbers.mean())
    before, total = memory.get("count", 0), memory.get("mean", mean)
    away = mean - total
    above = mean > total if away else memory.get("above")
    crossed = memory.get("above") is not None and above is not memory["above"]
    return {
        "batches": memory.get("batches", 0) + 1,
        "count": before + size,
        "sizes": memory.get("sizes", 0) + size * size,
        "mean": total + away * size / (before + size),
        "within": memory.get("within", 0.0) + float(((numbers - mean) ** 2).sum()),
        "between": memory.get("between", 0.0) + away * away * before * size / (before + size),
        "above": above,
        "changes": memory.get("changes", 0) + crossed,
    }


def _added(memory: _Memory, classes: NDArray[Any]) -> _Memory:
    counts = dict(memory.get("counts", {}))
    found, sizes = np.unique(classes, return_counts=True)
    for known, size in zip(found.tolist(), sizes.tolist(), strict=True):
        if str(known) in counts or len(counts) <= _MOST_CLASSES:  # one more shows that there are
            counts[str(known)] = counts.get(str(known), 0) + size
    most = int(found[sizes.argmax()])
    return {
        "batches": memory.get("batches", 0) + 1,
        "counts": counts,
        "pairs": memory.get("pairs", 0) + len(classes) * (len(classes) - 1) // 2,
        "equal": memory.get("equal", 0) + int((sizes * (sizes - 1) // 2).sum()),
        "last": most,
        "changes": memory.get("changes", 0) + (memory.get("last", most) != most),
    }

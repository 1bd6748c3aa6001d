from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from tocsin.model import ACTING, COMPETING, Mode, Reason, Role, Verdict
from tocsin.rules import (
    HEALTHY,
    UNDECIDED,
    Meta,
    Read,
    Reads,
    Rule,
    State,
    Step,
    Tensor,
    measured,
    not_applicable,
    register,
    violation,
)
from tocsin.rules._classes import classes_of_labels
from tocsin.rules._window import worst_verdict

_MOST_TENSORS = 4  # of labels that are followed
_MOST_CLASSES = 50
_LEAST_BATCH = 4  # labels: smaller batches have too few pairs
_CHANGES = 2  # so often the most frequent class of a batch has changed

_Memory = Mapping[str, Any]
"""Of labels: ``batches``, their number; ``counts``, the labels of each class; ``pairs`` and
``equal``, of labels in one batch; ``last``, the most frequent class, and ``changes`` of it."""


@register
@dataclass(frozen=True)
class UnshuffledData(Rule):
    """Batches of training hold samples of one class, then of another one: data is not shuffled.

    Labels in one batch are compared with those of all batches by the intraclass correlation: (q −
    p) / (1 − p), where q is the share of pairs of labels in one batch that are equal, and p that of
    pairs of labels in different batches. It is 0 if batches are drawn at random and 1 if each
    batch has a single class (Fisher, Statistical Methods for Research Workers, 1925, chapter 7).
    Fires when it is above ``correlation`` after ``batches`` saved batches, if the most frequent
    class of a batch has changed twice or more.

    Judges only labels that are integers, or floating point numbers of 0 and 1, one for each sample,
    of two classes to fifty. Does not judge adversarial training and models that act, where batches
    of one label are usual.

    Parameters
    ----------
    correlation: largest intraclass correlation.
    batches: saved batches of training, of at least four labels.

    Example: images in folders of their classes, and a loader without ``shuffle=True``.
    """

    options: ClassVar[Mapping[str, Any]] = {"for_steps": 2, "resolve": 5}
    causes: ClassVar[str] = (
        "The data is stored by class, and the loader does not shuffle it; or a sampler, a buffer "
        "for shuffling that is too small, or the files of each worker keep its order."
    )
    advice: ClassVar[str] = (
        "Shuffle: DataLoader(shuffle=True), DistributedSampler(shuffle=True) with set_epoch, a "
        "buffer as large as the data of several classes. If the order is meant, as where classes "
        "are learned one after the other, leave out this rule."
    )

    correlation: Annotated[float, Meta(gt=0, lt=1)] = 0.5
    batches: Annotated[int, Meta(ge=2)] = 12

    def reads(self) -> Reads:
        losses = Read(roles=(Role.LOSS,), fields=("mean",))
        return Reads({"labels": Read(roles=(Role.LABEL,), values=True), "losses": losses})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        if step.mode in (Mode.EVAL, Mode.PREDICT):
            return state, not_applicable(Reason.NO_TENSOR, f"a step of mode {step.mode.name}")
        if any(each.kind in (ACTING, COMPETING) for each in step.tensors["losses"]):
            return state, not_applicable(Reason.NO_TENSOR, "models that act or compete")
        memories: dict[str, _Memory] = dict(state)
        verdicts = []
        for tensor, classes in _batches(step.tensors["labels"]):
            key = tensor.name[-60:]
            if key in memories or len(memories) < _MOST_TENSORS:
                memories[key] = _added(memories.get(key, {}), classes)
                verdicts.append(self._judged(memories[key], tensor))
        if not verdicts:
            return state, not_applicable(Reason.NO_TENSOR, "no labels that are classes")
        return memories, worst_verdict(verdicts)

    def _judged(self, memory: _Memory, tensor: Tensor) -> Verdict:
        known = correlation(memory)
        if known is None or memory["batches"] < self.batches:
            return UNDECIDED
        if known <= self.correlation or memory["changes"] < _CHANGES:
            return measured(HEALTHY, known, self.correlation)
        equal = memory["equal"] / memory["pairs"]
        detail = (
            f"{100 * equal:.0f} % of the pairs of labels of {tensor.name} in a batch are equal, "
            f"though there are {len(memory['counts'])} classes: batches follow the order of classes"
        )
        evidence = {"correlation": known, "equal": equal, "batches": memory["batches"]}
        found = violation(Reason.ABOVE_THRESHOLD, detail, tensor, **evidence)
        return measured(found, known, self.correlation)


def correlation(memory: _Memory) -> float | None:
    """Returns the intraclass correlation; None if labels have one class, or too many classes."""
    counts = memory["counts"].values()
    labels, pairs, equal = sum(counts), memory["pairs"], memory["equal"]
    between = labels * (labels - 1) / 2 - pairs
    if len(counts) < 2 or len(counts) > _MOST_CLASSES or between <= 0 or pairs <= 0:
        return None
    by_chance = (sum(n * (n - 1) / 2 for n in counts) - equal) / between
    return float((equal / pairs - by_chance) / (1 - by_chance)) if by_chance < 1 else None


def _batches(labels: Sequence[Tensor]) -> Iterator[tuple[Tensor, Sequence[int]]]:
    """Yields the classes of each batch of labels that are integers, or floats of 0 and 1."""
    for each in labels:
        if each.value is None or each.value.dtype.kind not in "iubf":
            continue
        if each.value.dtype.kind == "f" and not np.isin(each.value, (0, 1)).all():
            continue
        classes = classes_of_labels(each.value)
        classes = None if classes is None else classes[classes >= 0]  # -100 is ignored
        if classes is not None and len(classes) >= _LEAST_BATCH:
            yield each, classes.tolist()


def _added(memory: _Memory, classes: Sequence[int]) -> _Memory:
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

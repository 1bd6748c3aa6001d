from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tocsin.model import Reason, Role, Severity, Verdict
from tocsin.rules import SAGEMAKER, Meta, Read, Reads, Rule, State, Step, Tensor, register
from tocsin.rules._verdicts import HEALTHY, measured, not_applicable, violation
from tocsin.rules.skill._classes import (
    Classes,
    are_judged,
    classes_of_labels,
    classes_of_predictions,
    worker_batches,
)

_MOST_CLASSES = 1000  # more classes are not counted: the state has a number for each pair


@register
@dataclass(frozen=True)
class Confusion(Rule):
    """A classifier confuses one class with another.

    Builds the confusion matrix of a step, over all workers: how many samples of label j were
    predicted as i. Fires when less than the share ``min_diag`` of the predictions of a class is
    right, or when more than the share ``max_off_diag`` of them belongs to one other class. Amazon's
    documents divide the first by the sum of the whole diagonal, so ten classes without an error
    would fire; here both are shares of the predictions of that class. Classes that were not
    predicted at this step are not judged. Every classifier confuses classes at the start of its
    training, so the rule watches by default only in profile ``sagemaker``.

    Parameters
    ----------
    category_no: the number of classes; samples of other classes are ignored. None: as many as
        occur, up to 1000.
    labels, predictions: name of a tensor or a collection, instead of tensors with that role. A
        tensor of that name is preferred to the others.
    labels_collection, predictions_collection: name of a collection, in addition. If you set one of
        the two parameters, the profile's default of the other has no effect.
    min_diag: smallest share of a class's predictions that are right.
    max_off_diag: largest share of a class's predictions that belong to one other class.

    Example: two of eight samples that are predicted as cats are dogs.
    """

    profiles: ClassVar[tuple[str, ...]] = (SAGEMAKER,)
    options: ClassVar[Mapping[str, Any]] = {"for_steps": 3}
    sagemaker: ClassVar[Mapping[str, Any]] = {
        "labels": "labels",
        "predictions": "predictions",
        "labels_collection": "labels",
        "predictions_collection": "predictions",
    }
    alternatives: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("labels", "labels_collection"),
        ("predictions", "predictions_collection"),
    )
    severity: ClassVar[Severity] = Severity.INFO
    causes: ClassVar[str] = (
        "The classes look alike to the model: too little training or capacity, wrong labels, or "
        "too few samples of one of the classes."
    )
    advice: ClassVar[str] = (
        "Look at samples of the two classes and at their labels, add features or data that tell "
        "them apart, and train longer if the loss still falls."
    )

    category_no: Annotated[int, Meta(ge=2)] | None = None
    labels: str | None = None
    predictions: str | None = None
    labels_collection: str | None = None
    predictions_collection: str | None = None
    min_diag: Annotated[float, Meta(ge=0, le=1)] = 0.9
    max_off_diag: Annotated[float, Meta(ge=0, le=1)] = 0.1

    def reads(self) -> Reads:
        return Reads(
            {
                "labels": _read(Role.LABEL, self.labels, self.labels_collection),
                "predictions": _read(
                    Role.PREDICTION, self.predictions, self.predictions_collection
                ),
            }
        )

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        labels = _named_first(step.tensors["labels"], self.labels)
        predictions = _named_first(step.tensors["predictions"], self.predictions)
        found = [
            (batch.labels, *classes)
            for batch in worker_batches(labels, predictions)
            if (classes := _classes(batch.values, batch.predicted)) is not None
        ]
        if not found:
            return state, not_applicable(Reason.NO_TENSOR, "no labels with predicted classes")
        truth = np.concatenate([labels for _, labels, _ in found])
        guesses = np.concatenate([guesses for _, _, guesses in found])
        known = are_judged(truth)
        truth, guesses = truth[known], guesses[known]
        if self.category_no is not None:
            known = (truth >= 0) & (truth < self.category_no)
            known &= (guesses >= 0) & (guesses < self.category_no)
            truth, guesses = truth[known], guesses[known]
        names, places = np.unique(np.concatenate([truth, guesses]), return_inverse=True)
        if not 0 < len(names) <= _MOST_CLASSES:
            return state, not_applicable(Reason.NO_TENSOR, f"{len(names)} classes")
        matrix = np.zeros((len(names), len(names)))
        np.add.at(matrix, (places[: len(truth)], places[len(truth) :]), 1)
        return state, self._judge(matrix, names.tolist(), found[0][0])

    def _judge(self, matrix: NDArray[Any], names: list[int], tensor: Tensor) -> Verdict:
        totals = matrix.sum(axis=0)
        shares = matrix / np.where(totals, totals, np.nan)
        right = np.where(totals, shares.diagonal(), 1.0)
        wrong = np.nan_to_num(shares - np.diag(shares.diagonal()))
        least = int(right.argmin())
        if right[least] < self.min_diag:
            detail = (
                f"only {right[least]:.3g} of the predictions of class {names[least]} match "
                f"{tensor.name}, less than {self.min_diag:g}"
            )
            evidence = {"right": float(right[least]), "predicted": names[least]}
            found = violation(Reason.BELOW_THRESHOLD, detail, tensor, **evidence)
            return measured(found, right[least], self.min_diag, "below")
        label, guess = np.unravel_index(wrong.argmax(), wrong.shape)
        if wrong[label, guess] > self.max_off_diag:
            detail = (
                f"{wrong[label, guess]:.3g} of the predictions of class {names[guess]} are class "
                f"{names[label]} in {tensor.name}, more than {self.max_off_diag:g}"
            )
            evidence = {
                "confused": float(wrong[label, guess]),
                "predicted": names[guess],
                "label": names[label],
            }
            found = violation(Reason.ABOVE_THRESHOLD, detail, tensor, **evidence)
            return measured(found, wrong[label, guess], self.max_off_diag)
        return measured(HEALTHY, right[least], self.min_diag, "below")


def _read(role: Role, name: str | None, collection: str | None) -> Read:
    collections = tuple(dict.fromkeys(one for one in (name, collection) if one))
    regex = (f"^{re.escape(name)}$",) if name else ()
    return Read(roles=(role,), values=True).explicitly(collections, regex)


def _named_first(tensors: Iterable[Tensor], name: str | None) -> list[Tensor]:
    """Sort tensors: those of this name come before those of the collection."""
    return sorted(tensors, key=lambda tensor: tensor.name != name)


def _classes(
    labels: NDArray[Any], predictions: NDArray[Any] | None
) -> tuple[Classes, Classes] | None:
    truth = classes_of_labels(labels)
    if truth is None or predictions is None:
        return None
    guesses = classes_of_predictions(predictions, binary=bool(np.isin(truth, (0, 1)).all()))
    return None if guesses is None else (truth, guesses)

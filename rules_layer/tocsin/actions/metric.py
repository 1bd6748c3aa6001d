"""Publish the numbers that decided as a CloudWatch metric."""

from __future__ import annotations

from collections.abc import Iterator

from tocsin.actions.ports import CapReached, Effects, Lookups
from tocsin.actions.request import ActionOutcome, Request, Result
from tocsin.events import TRAINING_SCALAR, Evidence, StatusChange
from tocsin.parsing import metric_name_fault
from tocsin.words import clean, cut, label

_NOT_FINITE = frozenset({"NaN", "Infinity", "-Infinity"})
_LARGEST = 2.0**359  # beyond ±1.17e108 CloudWatch refuses a value, below 8.5e-109 likewise
_SMALLEST = 2.0**-360
_DETAIL = 1000  # characters: it is stored once for each rule


def metric(request: Request, lookups: Lookups, effects: Effects) -> Result:
    """Put the first number of each alert's evidence into ``TrainingScalar``, or the metric named.

    Rules put the most important number first. CloudWatch takes no NaN and no infinity: those are
    counted under the name + ``NonFinite``. Refused if no number could be published.
    """
    results = [
        _publish(alert, request.argument, effects, lookups.namespace) for alert in request.firing
    ]
    done = [each for each in results if each.outcome is ActionOutcome.DONE]
    refused = [each for each in results if each.outcome is not ActionOutcome.DONE]
    if not results:
        return Result(ActionOutcome.REFUSED, "no rule fires, so there is no number to publish")
    detail = "; ".join(each.detail for each in (*done, *refused))
    return Result(ActionOutcome.DONE if done else ActionOutcome.REFUSED, cut(detail, _DETAIL))


def _publish(alert: StatusChange, argument: str | None, effects: Effects, namespace: str) -> Result:
    found = next(_numbers(alert.evidence), None)
    if found is None:
        return Result(
            ActionOutcome.REFUSED,
            f"rule {clean(alert.rule, 200)} gave no number that could be published",
        )
    key, value = found
    name = TRAINING_SCALAR if argument is None else argument
    if value is None:
        name, value = f"{name}NonFinite", 1.0
    if (fault := metric_name_fault(name)) is not None:
        return Result(ActionOutcome.REFUSED, fault)
    labels = {
        "Rule": alert.rule_configuration_name,
        "TrainingJobName": alert.training_job_name,
    }
    try:
        effects.put_metric(name, value, {key: label(text) for key, text in labels.items()})
    except CapReached as error:
        return Result(ActionOutcome.REFUSED, str(error))
    return Result(
        ActionOutcome.DONE,
        f"published {clean(key, 80)} as {name} = {value:.6g} in namespace {namespace}",
    )


def _numbers(evidence: Evidence) -> Iterator[tuple[str, float | None]]:
    """The numbers in the evidence; None for one that is not finite."""
    for key, value in evidence.items():
        if value in _NOT_FINITE:
            yield key, None
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield key, _publishable(value)


def _publishable(value: float) -> float:
    if abs(value) < _SMALLEST:
        return 0.0
    return float(max(-_LARGEST, min(_LARGEST, value)))

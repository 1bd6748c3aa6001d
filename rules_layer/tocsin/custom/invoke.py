"""Runs a rule over a run, as notebooks do it."""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections import Counter

from tocsin.custom.rule import Rule
from tocsin.trial.exceptions import (
    NoMoreData,
    RuleEvaluationConditionMet,
    StepUnavailable,
    TensorUnavailable,
    TensorUnavailableForStep,
)
from tocsin.trial.trial import Trial

_log = logging.getLogger("tocsin.rules")


def invoke_rule(
    rule_obj: Rule,
    start_step: int | None = 0,
    end_step: int | None = None,
    raise_eval_cond: bool = False,
) -> None:
    """Judge the run's global steps from ``start_step`` on, up to but not including ``end_step``.

    Waits for the steps of a job that is running, and returns at the end of the run. Skips steps
    without the tensors that the rule reads. With ``raise_eval_cond``, raises
    RuleEvaluationConditionMet at the first step at which the condition is met.
    """
    name, count = type(rule_obj).__name__, Counter[str]()
    step = start_step or 0
    _log.info("rule %s begins at step %d", name, step)
    while end_step is None or step < end_step:
        step = _next_known(rule_obj.base_trial, step)
        if end_step is not None and step >= end_step:
            break
        try:
            rule_obj.invoke(step)
            count["healthy"] += 1
        except (TensorUnavailableForStep, TensorUnavailable, StepUnavailable) as error:
            _log.debug("%s", error)
            count["passed over"] += 1
        except RuleEvaluationConditionMet as met:
            count["met"] += 1
            if raise_eval_cond:
                raise
            _log.debug("%s", met)
            if met.end_of_rule:
                break
        except NoMoreData:
            break
        step += 1
    _log.info(
        "rule %s has ended before step %d: its condition was met at %d steps and not met at %d, "
        "%d were passed over",
        name,
        step,
        *(count[what] for what in ("met", "healthy", "passed over")),
    )


def _next_known(trial: Trial, step: int) -> int:
    """The step, or the next one that was saved: those between can only be passed over."""
    known = trial.steps(show_incomplete_steps=True)
    position = bisect_left(known, step)
    return known[position] if position < len(known) else step

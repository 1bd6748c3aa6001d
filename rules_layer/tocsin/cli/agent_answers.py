"""Answers for agents: short documents with cause, advice and numbers."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from tocsin.cli.agent_places import Place
from tocsin.cli.errors import CommandError
from tocsin.cli.output import Document
from tocsin.model import Mode, json_number
from tocsin.report import leads
from tocsin.report.verdict import headline
from tocsin.rules import advice_for, find_rule

MOST_POINTS = 1000
_MOST_NAMES = 200
_MOST_RUNS = 200


def runs_answer(place: Place) -> Document:
    """Return the newest runs, at most 200, and how many there are."""
    runs = sorted(place.runs()["runs"], key=lambda run: run["LastModifiedTime"], reverse=True)
    return {"runs": runs[:_MOST_RUNS], "count": len(runs)}


def verdict_answer(place: Place, run: str) -> Document:
    """Return the verdict in a sentence, the findings with what to do, the cause first, and what
    was not judged."""
    found = place.verdict(run)
    said = headline(found)
    return {
        "run": found["run"],
        "verdict": said.sentence,
        "detail": said.detail,
        "finished": found["finished"],
        "steps": found["steps"],
        "findings": [_finding(*rules) for rules in leads(found)],
        "last_good": found["last_good"],
        "not_run": found["not_run"],
        "not_judged": found["not_judged"],
    }


def _finding(lead: Document, *explained: Document) -> Document:
    """Return a finding with its meaning and advice, and the names of the rules that it explains."""
    violation = lead["FirstViolation"] or {}
    rule = find_rule(lead["Rule"])
    return {
        "rule": lead["Rule"],
        "name": lead["RuleConfigurationName"],
        "severity": lead["Severity"],
        "first_step": violation.get("step"),
        "tensor": violation.get("tensor"),
        "details": lead["StatusDetails"],
        "evidence": violation.get("evidence", {}),
        "why": rule.causes if rule else "",
        "what_to_do": advice_for(rule, violation.get("tensor")) if rule else "",
        "explains": [each["RuleConfigurationName"] for each in explained],
    }


def tensors_answer(place: Place, run: str, search: str) -> Document:
    """Return the names of tensors that hold a text, at most 200, and how many there are."""
    names = [name for name in place.trial(run).tensor_names() if search.lower() in name.lower()]
    return {"tensors": sorted(names)[:_MOST_NAMES], "count": len(names)}


def series_answer(place: Place, run: str, tensor: str, mode: str, most: int) -> Document:
    """Return the numbers of a tensor by step: its value if it is one number, else its summary.

    Of more than ``most`` steps, that many are left, at equal distances, with the last one.
    """
    if mode not in Mode.__members__:
        raise CommandError(f"mode {mode!r} is not one of {', '.join(Mode.__members__)}")
    if not 1 <= most <= MOST_POINTS:
        raise CommandError(f"points is {most}, but must be from 1 to {MOST_POINTS}")
    trial = place.trial(run)
    names = trial.tensor_names()
    if tensor not in names:
        near = ", ".join(difflib.get_close_matches(tensor, names, n=5)) or "none is similar"
        raise CommandError(f"the run has no tensor {tensor!r}: {near}")
    found = trial.rows([tensor], Mode[mode])
    apart = -(-len(found) // most) or 1
    points = [_point(row) for row in found[::-1][::apart][::-1]]
    return {"run": run, "tensor": tensor, "steps": len(found), "points": points}


def _point(row: Mapping[str, Any]) -> Document:
    """Return a row with its value, or with its summary."""
    place = ("step", "mode", "mode_step", "worker")
    summary = ("mean", "abs_mean", "l2", "min", "max", "nan", "posinf", "neginf")
    shown = (*place, "value") if "value" in row else (*place, *summary)
    return {key: json_number(row[key]) for key in shown if key in row}

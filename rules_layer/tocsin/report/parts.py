"""The parts of the page: a run, its verdict, curves, rules, maps and tables."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Level = Literal["critical", "warning", "ok", "none"]
State = Literal["running", "finished", "failed", "stopped"]
Kind = Literal["loss", "metric", "learning_rate", "utilization", "seconds"]
"""The last two are of a machine: a percentage, and the mean duration of steps and waits."""

Phase = Literal["train", "eval", "predict", ""]

Span = tuple[int, int, str]
"""First step, last step, and what the rule found there.

``u`` not judged yet, ``h`` healthy, ``v`` a violation, ``f`` a violation while the rule fires.
"""

Numbers = list[float | None]
"""Numbers of four digits; None stands for NaN, for infinity and for what is not known."""


class Steps(msgspec.Struct, frozen=True):
    evaluated: int
    first: int | None
    last: int | None


class Run(msgspec.Struct, frozen=True):
    """A run. ``planned``: its steps, if the hook knows them. Times are ISO 8601, UTC.

    minutes: whether it is of a machine, whose steps are minutes since 1970.
    """

    url: str
    job: str
    run_id: str | None
    state: State
    workers: list[str]
    steps: Steps
    planned: int | None
    tensors: int
    began: str | None
    ended: str | None
    minutes: bool = False


class Headline(msgspec.Struct, frozen=True):
    """The verdict in one sentence, the findings that it explains, and its first step."""

    level: Level
    sentence: str
    detail: str
    step: int | None


class Curve(msgspec.Struct, frozen=True, omit_defaults=True):
    """A scalar over steps, thinned. ``y`` is the last save of each slice, ``lo`` and ``hi`` the
    least and the greatest, if several saves share a slice.

    phase: empty for a series of a machine.
    measure: the name without the phase: ``loss`` of ``val_loss``.
    label: the name in a legend: the phase alone, if it tells the curves of a kind apart.
    repeats: whether an earlier curve of its kind has the same numbers, and is drawn for both.
    """

    name: str
    mode: str
    worker: str
    kind: Kind
    x: list[int]
    y: Numbers
    lo: Numbers | None = None
    hi: Numbers | None = None
    phase: Phase = ""
    measure: str = ""
    label: str = ""
    repeats: bool = False


class Series(msgspec.Struct, frozen=True, omit_defaults=True):
    """The measure of a rule at each step, and its limit; ``limits`` if the limit moves."""

    label: str
    side: Literal["above", "below"]
    log: bool
    x: list[int]
    y: Numbers
    limit: float | None = None
    limits: Numbers | None = None
    lo: Numbers | None = None
    hi: Numbers | None = None


class RuleCard(
    msgspec.Struct,
    frozen=True,
    rename={
        "name": "RuleConfigurationName",
        "rule": "Rule",
        "status": "RuleEvaluationStatus",
        "details": "StatusDetails",
        "severity": "Severity",
        "first_violation": "FirstViolation",
        "fired_at": "FiredAt",
        "violations": "Violations",
        "data_points": "DataPoints",
        "parameters": "Parameters",
    },
):
    """A rule as ``tocsin check --json`` has it, with what a reader of the page needs.

    explained_by: the finding that explains it.
    likely: whether it is no alarm itself, and leads as the likely cause of one.
    at: steps of violations, the first 400.
    """

    name: str
    rule: str
    status: str
    details: str
    severity: str | None
    first_violation: dict[str, Any] | None
    fired_at: dict[str, Any] | None
    violations: int
    data_points: int
    parameters: dict[str, Any]
    summary: str
    causes: str
    advice: str
    explained_by: str | None
    likely: bool
    spans: list[Span]
    at: list[int]
    series: Series | None


class Alert(msgspec.Struct, frozen=True):
    """An action for a rule, and its outcome. ``step``: of the status change that asked for it."""

    step: int | None
    rule: str
    action: str
    outcome: str
    detail: str


class Heat(msgspec.Struct, frozen=True):
    """A map of layers over steps.

    x: the first step of each column; ``end`` is where the last column ends.
    lo, hi: the logarithms (base 10) of the colours' ends; over: whether some cells are above.
    cells: base64 of zlib of uint8[2][rows][x]: the least and the greatest of each cell. 0 is not
        saved, 1 zero, 2 to 254 from ``lo`` to ``hi``, 255 not finite.
    """

    title: str
    unit: str
    rows: list[str]
    x: list[int]
    end: int
    lo: float
    hi: float
    over: bool
    cells: str


class Fan(msgspec.Struct, frozen=True):
    """The distribution of a tensor: for each line of ``q`` its values over the steps ``x``."""

    x: list[int]
    q: list[str]
    v: list[Numbers]


class Bars(msgspec.Struct, frozen=True):
    """Numbers by name, one list for each of ``series``."""

    title: str
    names: list[str]
    series: dict[str, Numbers]


class Lines(msgspec.Struct, frozen=True):
    """Curves over a common ``x`` which is not the step, or is."""

    title: str
    x_label: str
    x: Numbers
    series: dict[str, Numbers]
    steps: bool = False


class Matrix(msgspec.Struct, frozen=True):
    """Counts: rows are the labels, columns the predictions."""

    names: list[str]
    counts: list[list[int]]


class Boosted(msgspec.Struct, frozen=True):
    """The sections of a run of XGBoost.

    task: binary, multiclass or regression.
    scores: rows of a table: average, precision, recall, F1.
    """

    task: str
    bars: list[Bars]
    lines: list[Lines]
    matrix: Matrix | None
    scores: list[tuple[str, float | None, float | None, float | None]]
    missing: list[str]

"""The data of the page: the fields of ``report.json``, which the template draws."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

SCHEMA = 1
"""Rises when a field changes its meaning or goes away."""

Level = Literal["critical", "warning", "ok", "none"]
State = Literal["running", "finished", "stopped"]
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


class Shares(msgspec.Struct, frozen=True):
    """The shares of a machine's time, each from 0 to 1. None: not measured, and part of ``other``.

    forward: forward passes; step: the rest of the training steps, or all of them where forward
        passes are not timed; wait: for data; evaluation: steps of other modes; other: the rest.
    """

    node: str
    seconds: float
    forward: float | None
    step: float | None
    wait: float | None
    evaluation: float | None
    other: float


class Utilization(msgspec.Struct, frozen=True):
    """A map of devices over minutes.

    rows: a device of a node each.
    x: the first minute of each column, counted from the first of the run; ``end`` is where the last
        column ends.
    cells: base64 of zlib of uint8[rows][x]: 0 is not known, 2 to 254 from 0 to 100 %.
    """

    rows: list[str]
    x: list[int]
    end: int
    cells: str


class Statistic(msgspec.Struct, frozen=True):
    """The distribution of a metric over all machines and devices.

    of: what it is the distribution of: ``steps``, ``samples``, or ``minutes``, of which each counts
        with its mean.
    """

    name: str
    unit: str
    of: str
    mean: float | None
    p50: float | None
    p95: float | None
    p99: float | None
    max: float | None


class JobTimes(msgspec.Struct, frozen=True):
    """Seconds before the first minute with a training step, of the loop, and after its last one."""

    initialization: float
    loop: float
    finalization: float


class NodeStatistic(msgspec.Struct, frozen=True):
    """The distribution of a resource's use on a node; of several GPUs it is their mean."""

    node: str
    resource: str
    unit: str
    max: float | None
    p99: float | None
    p95: float | None
    p50: float | None
    min: float | None


class Box(msgspec.Struct, frozen=True):
    """Quartiles, the 95th percentile and Tukey's whiskers of a device's samples in %."""

    node: str
    device: str
    p25: float | None
    p50: float | None
    p75: float | None
    p95: float | None
    upper: float | None
    lower: float | None


class Bottleneck(msgspec.Struct, frozen=True):
    """Shares of a node's samples in which all GPUs are below 10 %, and beside that a core is above
    90 %, or waits for disks more than 50 % of the time.
    """

    node: str
    low: float
    cpu: float
    io: float


class Profile(msgspec.Struct, frozen=True):
    """The sections of Amazon's ProfilerReport that the other fields of a machine do not have."""

    job: JobTimes | None
    usage: list[NodeStatistic]
    boxes: list[Box]
    workloads: list[Bars]
    bottlenecks: list[Bottleneck]


class Machine(msgspec.Struct, frozen=True):
    """The machines of a training, from the machine run beside it.

    first: the number of the first minute; began: its time (ISO 8601, UTC), None where a minute is
        not a minute of the clock, as in a demo.
    every: of how many minutes one was read.
    sentence: the shares and the median step in words.
    rules: those about the machine; empty on the page of the machine run, whose rules they are.
    steps: seconds over minutes; durations: the number of steps by duration.
    """

    url: str
    nodes: list[str]
    minutes: int
    first: int
    began: str | None
    every: int
    sentence: str
    verdict: Headline
    rules: list[RuleCard]
    shares: list[Shares]
    steps: Lines | None
    durations: Bars | None
    utilization: Utilization | None
    statistics: list[Statistic]
    profile: Profile | None = None


class Operators(msgspec.Struct, frozen=True):
    """The longest operations of a step trace: name, count, seconds, and the share of all there
    are."""

    title: str
    rows: list[tuple[str, int, float, float]]


class StepTrace(msgspec.Struct, frozen=True):
    """The newest step trace of a run, which ``tocsin trace`` asked for.

    made: when it was written (ISO 8601, UTC).
    seconds: the mean duration of its ``steps``; recording makes them longer.
    span: seconds from the first kernel's begin to the last one's end; None without a GPU.
    shares: of the span: compute, rest (communication and copies alone), idle, communication; and
        overlap, the share of communication beside which kernels compute.
    problem: why it cannot be shown, None if it can.
    """

    url: str
    made: str
    steps: int = 0
    seconds: float | None = None
    span: float | None = None
    shares: Mapping[str, float | None] = {}
    operators: list[Operators] = []
    problem: str | None = None


class Quality(msgspec.Struct, frozen=True):
    """The data behind the verdicts. ``interval``: median number of steps between two saves.

    problems: what cannot be used, and why. thinned: how the maps were thinned, if they were.
    """

    files: int
    steps: int
    interval: float | None
    lost: int
    late: int
    refused: int
    unreadable: int
    missing_workers: int
    problems: list[tuple[str, str]]
    thinned: str | None


class Other(msgspec.Struct, frozen=True):
    """Another run, to compare with."""

    run: Run
    verdict: Headline
    losses: list[Curve]
    rules: list[RuleCard]


class Page(msgspec.Struct, frozen=True):
    """All data of the page. ``missing``: sentences on missing data and how to capture it.
    ``machine``: None where no machine was watched. ``step_trace``: None where none was asked for.
    """

    schema: int
    made: str
    tocsin: str
    run: Run
    verdict: Headline
    losses: list[Curve]
    rules: list[RuleCard]
    alerts: list[Alert]
    heats: Mapping[str, Heat]
    fans: Mapping[str, Fan]
    boosted: Boosted | None
    quality: Quality
    missing: list[str]
    others: list[Other]
    machine: Machine | None = None
    step_trace: StepTrace | None = None


_encoder = msgspec.json.Encoder()


def json_of(page: Page) -> bytes:
    """``report.json``: UTF-8, without a NaN."""
    return _encoder.encode(page)

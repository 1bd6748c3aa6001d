"""The parts of the page on the machines of a training, and its step trace."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tocsin.report.parts import Bars, Headline, Lines, RuleCard


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

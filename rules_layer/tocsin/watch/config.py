"""The watch file as frozen dataclasses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import msgspec

from tocsin.model import Mode, Severity
from tocsin.parsing import seconds
from tocsin.watch.silence import Silence

Grace = int | str
"""A number of steps, or a time such as ``30s``."""

Name = Annotated[str, msgspec.Meta(max_length=256)]
"""At most as long as Amazon allows: it is part of events, metrics and messages."""

Actions = Annotated[
    tuple[Annotated[str, msgspec.Meta(min_length=1, max_length=512)], ...],
    msgspec.Meta(max_length=20),
]
"""Texts as in the file. A wrong one is refused when the file is read; the others are taken."""


MOST_BASELINES = 8
MOST_DISABLED = 200
MOST_PRICE = 1e6  # US dollars per hour

Baseline = Annotated[str, msgspec.Meta(min_length=1, max_length=900)]
"""The URL of a run, or the name of a job beside the one that is watched."""

Baselines = Annotated[tuple[Baseline, ...], msgspec.Meta(max_length=MOST_BASELINES)]

Inhibits = Annotated[tuple[Name, ...], msgspec.Meta(max_length=50)]


@dataclass(frozen=True)
class RuleConfig:
    """One rule of the watch file. ``None`` leaves an option to the rule's and profile's default.

    rule: the rule's name; ``tocsin rules`` lists them.
    name: the RuleConfigurationName in events and messages; by default the rule's.
    parameters: the rule's parameters; ``tocsin rules NAME`` lists them.
    include, exclude: patterns of names of the tensors that it reads, or leaves out.
    severity: the severity of the rule's alerts.
    actions: actions of this rule, in place of the file's.
    inhibits: names of rules that do not notify while this one fires.
    """

    rule: Name
    name: Name | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    for_steps: int | None = None
    start_step: int | None = None
    end_step: int | None = None
    every: int | None = None
    grace: Grace | None = None
    resolve: int | None = None
    mode: Literal["TRAIN", "EVAL", "PREDICT", "GLOBAL"] | None = None
    include: str | tuple[str, ...] = ()
    exclude: str | tuple[str, ...] = ()
    severity: Severity | None = None
    actions: Actions | None = None
    inhibits: Inhibits = ()

    @property
    def configuration_name(self) -> str:
        return self.name or self.rule


Interval = Annotated[int, msgspec.Meta(ge=1, le=1 << 53)]
StepNumber = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
StepNumbers = Annotated[tuple[StepNumber, ...], msgspec.Meta(max_length=100_000)]


@dataclass(frozen=True)
class SaveConfig:
    """The steps that are saved: ``save_steps``, and every N-th of those before ``end_step`` from
    ``start_step`` on, counted from 0. ``None`` leaves it to the wider configuration.
    """

    save_interval: Interval | None = None
    start_step: StepNumber | None = None
    end_step: StepNumber | None = None
    save_steps: StepNumbers | None = None


Modes = Mapping[Mode, SaveConfig]
"""Overrides for a mode; in a watch file flat keys such as ``eval.save_interval``."""


@dataclass(frozen=True)
class CollectionConfig:
    """Capture of one collection: its tensors, the steps, and the form.

    ``include_regex``, ``reductions`` and ``quantiles`` in one string are lists with commas; commas
    inside brackets belong to a pattern. ``None`` leaves it to the capture.

    include_regex: patterns of the names of its tensors.
    reductions: numbers of each tensor that become tensors of their own.
    save_raw_tensor: whether the values are kept; by default where a rule needs them.
    save_interval: every N-th step of a mode.
    start_step, end_step: ``save_interval`` applies from the first on, and before the second.
    save_steps: also save these steps, inside the window or not.
    save_shape: whether the shape is kept where smdebug looks for it.
    save_histogram: accepted without effect.
    quantiles: quantiles of each tensor, from 0 to 1, kept in its summary for the report.

    >>> CollectionConfig("^fc", reductions="mean,l2_norm", modes={Mode.EVAL: SaveConfig(1)})
    """

    include_regex: str | tuple[str, ...] = ()
    reductions: str | tuple[str, ...] | None = None
    save_raw_tensor: bool | None = None
    save_interval: Interval | None = None
    start_step: StepNumber | None = None
    end_step: StepNumber | None = None
    save_steps: StepNumbers | None = None
    save_shape: bool | None = None
    save_histogram: bool | None = None
    quantiles: str | tuple[float, ...] | None = None
    modes: Modes = field(default_factory=dict)


@dataclass(frozen=True)
class Capture:
    """Capture of a run: every N steps of a mode or every N seconds, whichever comes first.

    Collections override what is set here.

    save_interval: every N-th step of a mode; 10 without any setting.
    save_interval_seconds: also save after this many seconds, whichever comes first.
    collections: collections by name; their tensors are captured, whether a rule reads them or not.
    start_step, end_step: ``save_interval`` applies from the first on, and before the second.
    save_steps: also save these steps, inside the window or not.
    reductions: the reductions of collections without their own.
    save_raw_tensor: whether values are kept; by default where a rule needs them.
    save_shape: whether shapes are kept where smdebug looks for them.
    save_all: whether all tensors are captured.
    include_workers: all workers, or the first one; all by default.
    max_overhead: the share of the training's time that capture may take; 0.02 by default,
        1 for no limit.

    >>> Capture(save_interval=50, collections={"weights": CollectionConfig(save_raw_tensor=True)})
    """

    save_interval: Interval | None = None
    save_interval_seconds: Annotated[float, msgspec.Meta(gt=0, le=1e9)] | None = None
    collections: Mapping[str, CollectionConfig] = field(default_factory=dict)
    start_step: StepNumber | None = None
    end_step: StepNumber | None = None
    save_steps: StepNumbers | None = None
    modes: Modes = field(default_factory=dict)
    reductions: str | tuple[str, ...] | None = None
    save_raw_tensor: bool | None = None
    save_shape: bool | None = None
    save_all: bool = False
    include_workers: Literal["one", "all"] | None = None
    max_overhead: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None


@dataclass(frozen=True)
class Notify:
    """Times of notification.

    Times are text here, so that a wrong one is a fault of its own and not of the whole section.

    group_wait: how long a run's first alert waits for others, 0s to 15m.
    repeat_interval: how often a rule that still fires is notified again, 5m to 365d.
    send_resolved: whether to notify when a rule resolves.
    summary: actions that report the result at the end of the run.
    group_interval: the shortest time between two messages, 10s to 24h.
    """

    group_wait: str | int | float = "10s"
    repeat_interval: str | int | float = "4h"
    send_resolved: bool = True
    summary: Actions = ()
    group_interval: str | int | float = "5m"


@dataclass(frozen=True)
class Relaunch:
    """Options of the action ``relaunch``, which starts a stopped job again.

    attempts: the largest number of relaunches, 1 to 9.
    hyperparameters: what changes, by name: ``x0.3`` multiplies, a number replaces.
    """

    attempts: Annotated[int, msgspec.Meta(ge=1, le=9)] = 2
    hyperparameters: Annotated[Mapping[Name, str | int | float], msgspec.Meta(max_length=10)] = (
        field(default_factory=dict)
    )


@dataclass(frozen=True)
class Machine:
    """Metrics of the machine and times of the steps, in a run of their own beside the training's.

    ``interval``: the time between two samples, from 100ms to 60s.
    ``gpu``: whether GPUs are read; ``auto``: where the package nvidia-ml-py is installed.
    ``processes``: whether memory and CPU of the process and its children are read.
    ``steps``: whether steps are timed.
    """

    interval: str | int | float = "500ms"
    gpu: Literal["auto"] | bool = "auto"
    processes: bool = True
    steps: bool = True

    @property
    def seconds(self) -> float:
        """The interval. Raises ValueError for one that is not from 100ms to 60s."""
        found = seconds(self.interval) if isinstance(self.interval, str) else self.interval
        if found is None or not 0.1 <= found <= 60:
            raise ValueError(f"{self.interval!r:.100} is not a time from 100ms to 60s")
        return float(found)


@dataclass(frozen=True)
class Watch:
    """A whole watch file.

    profile: the defaults of rules.
    severity: the severity of all alerts; by default each rule's own.
    actions: what to do when a rule fires.
    rules: names or sections; they replace the rules of the profile.
    extend_profile: keep the rules of the profile; those under ``rules`` change or join them.
    disable: names of rules that do not run.
    capture: tensors to capture beyond what rules need, and when.
    notify: times of notifications.
    silences: jobs and rules that do not notify until a given time.
    relaunch: how the action ``relaunch`` starts a stopped job again.
    baseline: runs that are known to be good; the rule WorseThanBaseline compares with them.
    machine: also watch the machine; see docs/machine.md.
    custom_rules: a folder of rules, relative to this file.
    dry_run: log actions instead of taking them.
    guard: skip updates whose loss or gradients are not finite (PyTorch).
    price_per_hour: US dollars per hour of all machines of the training.
    """

    profile: Literal["recommended", "sagemaker"] = "recommended"
    severity: Severity | None = None
    actions: Actions = ("email", "metric")
    rules: tuple[RuleConfig, ...] | None = None
    extend_profile: bool = False
    disable: Annotated[tuple[str, ...], msgspec.Meta(max_length=MOST_DISABLED)] = ()
    capture: Capture = field(default_factory=Capture)
    notify: Notify = field(default_factory=Notify)
    silences: tuple[Silence, ...] = ()
    relaunch: Relaunch = field(default_factory=Relaunch)
    baseline: (
        Baseline | Annotated[tuple[Baseline, ...], msgspec.Meta(max_length=MOST_BASELINES)]
    ) = ()
    machine: Machine | None = None
    custom_rules: str | None = None
    dry_run: bool = False
    guard: bool = False
    price_per_hour: Annotated[float, msgspec.Meta(gt=0, le=MOST_PRICE)] | None = None


msgspec.json.Decoder(Watch)  # msgspec prepares the type here, once, and not in several threads


def as_tuple(value: str | Sequence[str]) -> tuple[str, ...]:
    """Return a single pattern, or several."""
    return (value,) if isinstance(value, str) else tuple(value)

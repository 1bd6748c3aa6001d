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
"""Texts as in the file. A wrong one is refused when it is its turn; the others are taken."""


Inhibits = Annotated[tuple[Name, ...], msgspec.Meta(max_length=50)]


@dataclass(frozen=True)
class RuleConfig:
    """One rule of the watch file. ``None`` leaves an option to the rule's and profile's default."""

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

    ``include_regex`` and ``reductions`` in one string are lists with commas; commas inside brackets
    belong to a pattern. ``None`` leaves it to the capture. ``save_histogram`` has no effect.

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
    modes: Modes = field(default_factory=dict)


@dataclass(frozen=True)
class Capture:
    """Capture of a run: every N steps of a mode or every N seconds, whichever comes first.

    Collections override what is set here. ``max_overhead`` is the share of the training's time
    that capture may take: 0.02 by default, 1 for no limit.

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
    """Times of notification; ``summary`` lists the actions that report the end of a run.

    Times are text here, so that a wrong one is a fault of its own and not of the whole section.
    """

    group_wait: str | int | float = "10s"
    repeat_interval: str | int | float = "4h"
    send_resolved: bool = True
    summary: Actions = ()
    group_interval: str | int | float = "5m"


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
    """A whole watch file. Without ``rules`` those of the profile, with their defaults."""

    profile: Literal["recommended", "sagemaker"] = "recommended"
    severity: Severity | None = None
    actions: Actions = ("email", "metric")
    rules: tuple[RuleConfig, ...] | None = None
    capture: Capture = field(default_factory=Capture)
    notify: Notify = field(default_factory=Notify)
    silences: tuple[Silence, ...] = ()
    machine: Machine | None = None
    custom_rules: str | None = None
    dry_run: bool = False


msgspec.json.Decoder(Watch)  # msgspec prepares the type here, once, and not in several threads


def as_tuple(value: str | Sequence[str]) -> tuple[str, ...]:
    """A single pattern, or several."""
    return (value,) if isinstance(value, str) else tuple(value)

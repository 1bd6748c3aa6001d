"""The base of all rules, what they read, and the steps that they get."""

from __future__ import annotations

import base64
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar

from numpy.typing import NDArray

from tocsin.contracts import Contract
from tocsin.model import Detail, Mode, Role, Severity, Shard, TensorSummary, Verdict
from tocsin.rules._parameters import check

RECOMMENDED, SAGEMAKER = "recommended", "sagemaker"
PROFILES = (RECOMMENDED, SAGEMAKER)
TRAINING, MACHINE = "training", "machine"
SUBJECTS = (TRAINING, MACHINE)

State = Mapping[str, Any]
"""The memory of a rule from step to step: JSON, small, owned by the rule, ``{}`` at first."""


@dataclass(frozen=True)
class Tensor:
    """One tensor of one worker at one step, as a rule sees it.

    ``value`` is set only where the rule's read asks for values.
    ``previous`` holds up to ``Read.back`` earlier saves of the same tensor, newest first.
    ``shard``: it is a worker's part of a tensor that is sharded over workers. A rule gets parts if
    its read asks for values. Else it gets one tensor, with the first worker's name, whose summary
    is that of all parts.
    ``contract``: the one that it reports, as its hook describes it.
    """

    name: str
    worker: str
    summary: TensorSummary
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    role: Role | None = None
    kind: str | None = None
    value: NDArray[Any] | None = None
    previous: tuple[Tensor, ...] = ()
    shard: Shard | None = None
    contract: Contract | None = None


@dataclass(frozen=True)
class Observation:
    """A saved step of a baseline.

    at: the number of the step within its mode.
    step: its number over all modes.
    time: when it was written, in seconds since the epoch.
    numbers: those that the rule compares, by name.
    """

    mode: Mode
    at: int
    step: int
    time: float
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Baseline:
    """A run that is known to be good: its name in the configuration, and its steps in order.

    problem: why it has no steps.
    """

    run: str
    steps: tuple[Observation, ...]
    problem: str = ""

    @cached_property
    def series(self) -> Mapping[str, tuple[tuple[int, float], ...]]:
        """The steps within their mode and the numbers there, by the number's name."""
        found: dict[str, list[tuple[int, float]]] = {}
        for each in self.steps:
            for name, number in each.numbers.items():
                found.setdefault(name, []).append((each.at, number))
        return {name: tuple(sorted(saves)) for name, saves in found.items()}


@dataclass(frozen=True)
class Step:
    """One complete step, with the tensors that the rule reads.

    ``tensors`` maps the name of each read to what it selected, ordered by worker and name.
    ``time`` is the time at which the last index file was written, in seconds since the epoch.
    ``times`` has that time for each worker.
    ``tick`` marks a call without a step, as time passes: no tensors, and ``time`` is now.
    ``waiting_since``, of a tick before the first step: when the run was first evaluated.
    ``others`` has, for each run in ``Reads.runs``, the tensors that the same reads selected at this
    step of that run. It has only runs with such a step.
    ``trial`` is the run up to this step, for a rule that reads it as a whole.
    ``baselines`` are the runs in ``Reads.baselines``.
    """

    step: int
    mode: Mode
    mode_step: int
    time: float
    tensors: Mapping[str, tuple[Tensor, ...]] = field(default_factory=dict)
    tick: bool = False
    times: Mapping[str, float] = field(default_factory=dict)
    others: Mapping[str, Mapping[str, tuple[Tensor, ...]]] = field(default_factory=dict)
    trial: Any = None
    waiting_since: float | None = None
    baselines: tuple[Baseline, ...] = ()


@dataclass(frozen=True)
class Read:
    """Selects the tensors that a rule reads, by role or by name. Without arguments it selects all.

    ``roles``: tensors with one of these roles.
    ``kinds``: only tensors of one of these kinds (``relu``, ``tanh`` …).
    ``collections``, ``regex``: named tensors (``re.search`` on the name); the union replaces roles.
    ``fields``: the fields of the summary that the rule uses.
    ``values``: whether the rule needs whole tensors.
    ``back``: how many earlier saves of each tensor the rule needs, in the same mode.
    ``detail``: numbers that the rule needs in addition to the summary.
    """

    roles: tuple[Role, ...] = ()
    kinds: tuple[str, ...] = ()
    collections: tuple[str, ...] = ()
    regex: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    values: bool = False
    back: int = 0
    detail: Detail | None = None

    def describe(self) -> str:
        """Return the selection in words, for a status."""
        named = [f"collection {name}" for name in self.collections]
        named += [f"name matching {pattern!r}" for pattern in self.regex]
        if not named:
            kinds = f" of kind {' or '.join(self.kinds)}" if self.kinds else ""
            named = [
                f"{what}{kinds}" for what in [f"role {r}" for r in self.roles] or ["any tensor"]
            ]
        return " or ".join(named)

    def explicitly(self, collections: tuple[str, ...], regex: tuple[str, ...]) -> Read:
        """Return a read of the tensors that a user named, or this read if there are none."""
        if not collections and not regex:
            return self
        return replace(self, roles=(), kinds=(), collections=collections, regex=regex)


@dataclass(frozen=True)
class Reads:
    """All reads of a rule.

    ``tensors``: the reads by name.
    ``ticks``: whether the rule is also evaluated as time passes, without a step.
    ``runs``: other runs that the rule reads as well (URLs, or names of jobs beside this one).
    ``trial``: whether the rule gets the whole run up to the step.
    ``peers``: whether the rule compares workers. Then nothing is read of a run with one worker.
    ``needs``: reads without which the rule does not apply. It is not evaluated again until each has
    found a tensor.
    ``baselines``: runs that are known to be good, which the rule gets as a series of numbers (URLs,
    or names of jobs beside this one).
    """

    tensors: Mapping[str, Read]
    ticks: bool = False
    runs: tuple[str, ...] = ()
    trial: bool = False
    peers: bool = False
    needs: tuple[str, ...] = ()
    baselines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rule(ABC):
    """Base of all rules: a frozen dataclass of parameters with two pure methods.

    To write a rule, declare its parameters as fields with the defaults of profile ``recommended``,
    and bounds as ``Annotated[float, Meta(gt=0)]`` (``msgspec.Meta``). ``reads`` says what to read,
    ``evaluate`` judges one step. Alerts show the first line of the docstring.

    ``options``: engine options such as ``for_steps`` with other defaults than usual.
    ``sagemaker``: parameters and options that differ in profile ``sagemaker``.
    ``alternatives``: groups of parameters that name the same tensors. A user who sets one of a
    group replaces the defaults of all of them.
    ``profiles``: the profiles in which the rule watches by default.
    ``inhibits``: rules without a notification while this one fires. An action that notifies of this
    rule does not notify of them.
    ``severity``: of its alerts in profile ``recommended``, unless a watch file names another. A
    verdict may have its own. At ``info`` nobody is notified unless the rule's entry has actions.
    ``about``: ``training``, or ``machine`` for a rule on the minutes of a machine run. Neither kind
    of run shows the rules about the other.
    ``causes``: why it happens.
    ``advice``: what to try.
    ``advice_for_trees``: the same for boosted trees, where that differs.
    """

    options: ClassVar[Mapping[str, Any]] = {}
    sagemaker: ClassVar[Mapping[str, Any]] = {}
    alternatives: ClassVar[tuple[tuple[str, ...], ...]] = ()
    profiles: ClassVar[tuple[str, ...]] = (RECOMMENDED,)
    inhibits: ClassVar[tuple[str, ...]] = ()
    severity: ClassVar[Severity] = Severity.WARNING
    about: ClassVar[str] = TRAINING
    causes: ClassVar[str] = ""
    advice: ClassVar[str] = ""
    advice_for_trees: ClassVar[str] = ""

    def __post_init__(self) -> None:
        """Raises BadRule, a ValueError, for a parameter that is out of its bounds."""
        check(self)

    @abstractmethod
    def reads(self) -> Reads: ...

    @abstractmethod
    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]: ...


def tensor_key(tensor: Tensor) -> str:
    """Return a short key of a worker's tensor for a rule's state: 48 bits in 8 characters."""
    return _short(f"{tensor.worker}/{tensor.name}")


@lru_cache(maxsize=1 << 14)
def _short(name: str) -> str:
    return base64.urlsafe_b64encode(hashlib.blake2b(name.encode(), digest_size=6).digest()).decode()

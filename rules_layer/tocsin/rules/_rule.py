"""What a rule is: parameters, what it reads, and one pure method."""

from __future__ import annotations

import base64
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from numpy.typing import NDArray

from tocsin.model import Detail, Mode, Outcome, Reason, Role, TensorSummary, Verdict

RECOMMENDED, SAGEMAKER = "recommended", "sagemaker"
PROFILES = (RECOMMENDED, SAGEMAKER)

State = Mapping[str, Any]
"""What a rule remembers from step to step: JSON, small, owned by the rule, ``{}`` at first."""


@dataclass(frozen=True)
class Tensor:
    """One tensor of one worker at one step, as a rule sees it.

    ``value`` is there only where the rule's read asks for values; ``previous`` holds up to
    ``Read.back`` earlier saves of the same tensor, newest first.
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


@dataclass(frozen=True)
class Step:
    """One complete step, reduced to what the rule reads.

    ``tensors`` maps the name of each read to what it selected, in the order of workers and
    names. ``time`` is the moment of the newest index file (seconds since the epoch), ``times``
    that of each worker. A ``tick`` is the passing of time without a step: no tensors, ``time``
    is now. ``others`` has, by the run's name in ``Reads.runs``, what the same reads selected at
    this step of that run; a run that has no such step is missing. ``trial`` is the run up to this
    step, for a rule that reads it as a whole.
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


@dataclass(frozen=True)
class Read:
    """Tensors that a rule wants: those of any of the roles, unless named explicitly.

    ``collections`` and ``regex`` (``re.search`` on the name) replace the roles, and are a union.
    Nothing given selects every tensor. ``kinds`` narrows roles (``relu``, ``tanh`` …).
    ``fields`` are the summary fields used, ``detail`` what the summary holds beyond its plain
    numbers; ``values`` asks for whole tensors; ``back`` for that many earlier saves of each
    tensor in the same mode.
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
        """What is looked for, in words for a status."""
        named = [f"collection {name}" for name in self.collections]
        named += [f"name matching {pattern!r}" for pattern in self.regex]
        if not named:
            kinds = f" of kind {' or '.join(self.kinds)}" if self.kinds else ""
            named = [
                f"{what}{kinds}" for what in [f"role {r}" for r in self.roles] or ["any tensor"]
            ]
        return " or ".join(named)

    def explicitly(self, collections: tuple[str, ...], regex: tuple[str, ...]) -> Read:
        """This read, with what a user named in place of the roles, if anything."""
        if not collections and not regex:
            return self
        return replace(self, roles=(), kinds=(), collections=collections, regex=regex)


@dataclass(frozen=True)
class Reads:
    """All that a rule reads of a step: named reads, whether it wants to know the time, the same
    reads of other ``runs`` (a URL, or the name of a job beside this one), and whether it wants
    the whole run, as a ``trial``. Where ``peers`` are compared, nothing is read of a run with a
    single worker.
    """

    tensors: Mapping[str, Read]
    ticks: bool = False
    runs: tuple[str, ...] = ()
    trial: bool = False
    peers: bool = False


@dataclass(frozen=True)
class Rule(ABC):
    """Base of all rules: a frozen dataclass of parameters with two pure methods.

    To write one: declare the parameters as fields with the defaults of profile ``recommended``;
    put what differs in profile ``sagemaker`` (parameters or engine options such as
    ``for_steps``) into ``sagemaker``, and engine options of ``recommended`` into ``options``;
    say what to read in ``reads``; judge one step in ``evaluate``. The first line of the
    docstring is the sentence that people see in the alert; ``causes`` says why it happens and
    ``advice`` what to try. ``profiles`` are those in which it watches without being asked for.
    """

    options: ClassVar[Mapping[str, Any]] = {}
    sagemaker: ClassVar[Mapping[str, Any]] = {}
    profiles: ClassVar[tuple[str, ...]] = (RECOMMENDED,)
    causes: ClassVar[str] = ""
    advice: ClassVar[str] = ""

    @abstractmethod
    def reads(self) -> Reads: ...

    @abstractmethod
    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]: ...


def tensor_key(tensor: Tensor) -> str:
    """A short name for a worker's tensor in a rule's state: 48 bits in 8 characters."""
    name = f"{tensor.worker}/{tensor.name}".encode()
    return base64.urlsafe_b64encode(hashlib.blake2b(name, digest_size=6).digest()).decode()


HEALTHY = Verdict(Outcome.HEALTHY, Reason.WITHIN_BOUNDS)
UNDECIDED = Verdict(Outcome.UNDECIDED, Reason.TOO_EARLY)


def not_applicable(reason: Reason, detail: str) -> Verdict:
    """The step has nothing that the rule could judge."""
    return Verdict(Outcome.NOT_APPLICABLE, reason, detail)


def violation(
    reason: Reason, detail: str, tensor: Tensor, **evidence: float | int | str
) -> Verdict:
    """The step breaks the rule; ``evidence`` are the numbers that decided.

    The first is the one that tells most: the action ``metric`` publishes it, an SMS names it.
    """
    return Verdict(Outcome.VIOLATION, reason, detail, tensor.name, tensor.worker, evidence)

"""Makes rules that can be evaluated from a watch file."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from reprlib import repr as short  # a text of a file may be long
from typing import Any

import msgspec

from tocsin.contracts import fault, misspelt
from tocsin.events import NotifyPolicy, RelaunchPolicy
from tocsin.model import Mode, Role, Severity
from tocsin.parsing import seconds
from tocsin.rules import (
    MACHINE,
    OPTIONS,
    SAGEMAKER,
    BadRule,
    Reads,
    Rule,
    build,
)
from tocsin.tensors import BadPattern, search
from tocsin.watch.actions import usable
from tocsin.watch.config import RuleConfig, Watch, as_tuple
from tocsin.watch.configured import configured
from tocsin.watch.notify_policy import policy
from tocsin.watch.relaunching import relaunch_policy
from tocsin.watch.silence import Silence

_COMPARES = "WorseThanBaseline"
_LEAST = {"for_steps": 1, "start_step": 0, "end_step": 1, "every": 1, "resolve": 1}


@dataclass(frozen=True)
class Options:
    """The options of every rule, which the engine applies. Steps count in ``mode`` if it is set.

    Violations within ``grace_steps`` or ``grace_seconds`` of the run's first step do not count.
    ``every`` is the smallest distance between two evaluated steps.
    """

    for_steps: int = 1
    start_step: int = 0
    end_step: int | None = None
    every: int = 1
    grace_steps: int = 0
    grace_seconds: float = 0.0
    resolve: int | None = None
    mode: Mode | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True)
class Watched:
    """A configured rule, ready to be evaluated.

    own_severity: the watch file names no severity: ``severity`` is the rule's own, and that of a
        verdict goes before it.
    own_actions: the actions stand in the rule's entry.
    silences: those that may cover it in some job.
    relaunching: the changes of a job that the rule starts again; None without that action.
    """

    name: str
    rule_name: str
    rule: Rule
    reads: Reads
    options: Options
    severity: Severity
    actions: tuple[str, ...]
    dry_run: bool
    fingerprint: str
    inhibits: tuple[str, ...] = ()
    policy: NotifyPolicy = NotifyPolicy()  # noqa: RUF009  # frozen
    silences: tuple[Silence, ...] = ()
    relaunching: RelaunchPolicy | None = None
    own_severity: bool = False
    own_actions: bool = True

    @cached_property
    def is_custom(self) -> bool:
        """Return whether the rule is not one of Tocsin's own."""
        return not type(self.rule).__module__.startswith("tocsin.rules.")

    def severity_of(self, verdict: Severity | None) -> Severity:
        """Return the severity of an alert for a verdict that has this one."""
        return verdict if self.own_severity and verdict is not None else self.severity

    def actions_at(self, severity: Severity) -> tuple[str, ...]:
        """Return the actions of an alert: none if only the rule itself calls it ``info``."""
        quiet = severity is Severity.INFO and self.own_severity and not self.own_actions
        return () if quiet else self.actions

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters that are set."""
        values = dataclasses.asdict(self.rule)
        return {key: value for key, value in values.items() if value not in (None, ())}


@dataclass(frozen=True)
class Refused:
    """A configured rule that cannot be evaluated, and why."""

    name: str
    rule_name: str
    reason: str
    fingerprint: str


def resolve(
    watch: Watch, about: str | None = None
) -> tuple[tuple[Watched, ...], tuple[Refused, ...]]:
    """Return the rules of a watch file, and those that cannot be built. One never affects another.

    With ``about`` those about the training, or the machine. A ``baseline`` adds the rule that
    compares with it.
    """
    configs = configured(watch, about)
    if watch.baseline and about != MACHINE and _COMPARES not in watch.disable:
        configs = _with_baseline(configs, as_tuple(watch.baseline))
    good, bad = [], []
    for config in configs:
        try:
            good.append(_watched(watch, config))
        except BadRule as error:
            bad.append(_refused(config, str(error)))
        except Exception as error:  # noqa: BLE001  # the code of a rule may be from anywhere
            bad.append(_refused(config, f"{config.rule}: {type(error).__name__}: {error}"))
    return tuple(good), tuple(bad)


def _with_baseline(configs: Sequence[RuleConfig], runs: tuple[str, ...]) -> tuple[RuleConfig, ...]:
    """The rules, with the one that compares with these runs: the file's own, or an added one."""
    own = {"runs": list(runs)}
    comparing = [config for config in configs if config.rule == _COMPARES]
    added = () if comparing else (RuleConfig(_COMPARES),)
    return tuple(
        dataclasses.replace(config, parameters={**own, **config.parameters})
        if config.rule == _COMPARES
        else config
        for config in (*configs, *added)
    )


def _refused(config: RuleConfig, why: str) -> Refused:
    reason = " ".join(why.split())[:1024]
    return Refused(config.configuration_name, config.rule, reason, _fingerprint(reason))


def _watched(watch: Watch, config: RuleConfig) -> Watched:
    rule, values = build(config.rule, config.parameters, watch.profile)
    reads = rule.reads()
    set_here = {key: value for key in OPTIONS if (value := getattr(config, key)) is not None}
    try:
        options = _options(config, {**values, **set_here})
        _check_ids(reads, options)
        for read in reads.tensors.values():
            _patterns("tensor_regex", read.regex)
    except BadRule as error:
        raise BadRule(f"{config.rule}: {error}") from error
    name, given = config.configuration_name, config.severity or watch.severity
    actions = usable(watch.actions if config.actions is None else config.actions)
    own = Severity.WARNING if watch.profile == SAGEMAKER else rule.severity
    return Watched(
        name=name,
        rule_name=config.rule,
        rule=rule,
        reads=reads,
        options=options,
        severity=given or own,
        actions=actions,
        dry_run=watch.dry_run,
        fingerprint=_fingerprint(config.rule, rule, options),
        inhibits=tuple(other for other in config.inhibits if other != name),
        policy=policy(watch.notify),
        silences=tuple(each for each in watch.silences if each.covers_rule(name, given)),
        relaunching=relaunch_policy(watch.relaunch) if "relaunch" in actions else None,
        own_severity=given is None and watch.profile != SAGEMAKER,
        own_actions=config.actions is not None,
    )


def _options(config: RuleConfig, values: Mapping[str, Any]) -> Options:
    given = {key: value for key, value in values.items() if value not in (None, "None", "")}
    numbers = {
        key: _whole_number(key, given[key], least) for key, least in _LEAST.items() if key in given
    }
    steps, seconds = _grace(given.get("grace", 0))
    return Options(
        **numbers,
        grace_steps=steps,
        grace_seconds=seconds,
        mode=_mode(given.get("mode", Mode.GLOBAL.name)),
        include=_patterns("include", as_tuple(config.include)),
        exclude=_patterns("exclude", as_tuple(config.exclude)),
    )


def _whole_number(key: str, value: Any, least: int, otherwise: str = "") -> int:
    try:
        number: int = msgspec.convert(value, int, strict=False)
    except msgspec.ValidationError:
        number = least - 1
    if number < least:
        must = f"must be a whole number from {least} on{otherwise}"
        raise BadRule(f"{key} is {short(value)}, but {must}")
    return number


def _grace(value: Any) -> tuple[int, float]:
    """Steps and seconds; one of them is 0."""
    if (time := seconds(value)) is not None:
        return 0, time
    return _whole_number("grace", value, 0, ", or a time like 30s, 2m"), 0.0


def _mode(value: Any) -> Mode | None:
    """None for GLOBAL: the steps of all modes."""
    if not isinstance(value, str) or value not in Mode.__members__:
        raise BadRule(f"mode is {short(value)}, but must be one of {', '.join(Mode.__members__)}")
    return None if value == Mode.GLOBAL.name else Mode[value]


def _patterns(key: str, patterns: tuple[str, ...]) -> tuple[str, ...]:
    for pattern in patterns:
        try:
            search(pattern, "")
        except BadPattern as error:
            raise BadRule(f"{key}: {error}") from error
    return patterns


def _check_ids(reads: Reads, options: Options) -> None:
    """Raises BadRule for a pattern of a rule that reads contracts, if it names none."""
    if not any(Role.CONTRACT in read.roles for read in reads.tensors.values()):
        return
    for key in ("include", "exclude"):
        for pattern in getattr(options, key):
            if word := misspelt(pattern):
                raise BadRule(f"{key}: {fault(word)}")


def _fingerprint(*judging: Any) -> str:
    """Change when a rule would judge differently: then its state is dropped."""
    return hashlib.sha256(msgspec.json.encode(judging, order="sorted")).hexdigest()[:16]

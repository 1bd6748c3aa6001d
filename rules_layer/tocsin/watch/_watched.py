"""From configuration to rules that can be evaluated, with everything resolved."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from tocsin.model import Mode, Severity
from tocsin.rules import BadRule, Reads, Rule, build, rule_names
from tocsin.tensors import BadPattern, search
from tocsin.watch._config import RuleConfig, Watch
from tocsin.watch._load import as_tuple


@dataclass(frozen=True)
class Options:
    """What the engine does for a rule, resolved. Steps are counted in ``mode``, if one is set.

    ``grace_steps`` and ``grace_seconds`` (from the run's first step on) leave violations
    uncounted; ``every`` skips steps nearer than that to the last one evaluated.
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
    """A configured rule, ready to be evaluated."""

    name: str
    rule_name: str
    rule: Rule
    reads: Reads
    options: Options
    severity: Severity
    actions: tuple[str, ...]
    dry_run: bool
    fingerprint: str

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters that say something: what is not set is left out."""
        values = dataclasses.asdict(self.rule)
        return {key: value for key, value in values.items() if value not in (None, ())}


@dataclass(frozen=True)
class Refused:
    """A configured rule that cannot be evaluated, and why."""

    name: str
    rule_name: str
    reason: str
    fingerprint: str


def resolve(watch: Watch) -> tuple[tuple[Watched, ...], tuple[Refused, ...]]:
    """The rules of a watch file, built; what is wrong with one harms no other."""
    configs = watch.rules
    if configs is None:
        configs = tuple(RuleConfig(name) for name in rule_names())
    good, bad = [], []
    for config in configs:
        fingerprint = _fingerprint(watch.profile, config)
        try:
            good.append(_watched(watch, config, fingerprint))
        except BadRule as error:
            bad.append(Refused(config.configuration_name, config.rule, str(error), fingerprint))
    return tuple(good), tuple(bad)


def _watched(watch: Watch, config: RuleConfig, fingerprint: str) -> Watched:
    own = {
        key: value
        for key in ("for_steps", "start_step", "end_step", "every", "grace", "resolve", "mode")
        if (value := getattr(config, key)) is not None
    }
    rule, inherited = build(config.rule, config.parameters, watch.profile)
    options = _options(config, {**inherited, **own})
    for read in rule.reads().tensors.values():
        _patterns(config.rule, "tensor_regex", read.regex)
    return Watched(
        name=config.configuration_name,
        rule_name=config.rule,
        rule=rule,
        reads=rule.reads(),
        options=options,
        severity=config.severity or watch.severity,
        actions=watch.actions if config.actions is None else config.actions,
        dry_run=watch.dry_run,
        fingerprint=fingerprint,
    )


def _options(config: RuleConfig, values: Mapping[str, Any]) -> Options:
    grace = values.get("grace", 0)
    seconds = _seconds(config.rule, grace)
    numbers = {
        key: _whole(config.rule, key, values[key], least)
        for key, least in (("for_steps", 1), ("start_step", 0), ("every", 1))
        if key in values
    }
    limits = {
        key: None if values.get(key) in (None, "None") else _whole(config.rule, key, values[key], 1)
        for key in ("end_step", "resolve")
    }
    mode = values.get("mode")
    if mode is not None and mode not in Mode.__members__:
        raise BadRule(
            f"{config.rule}: mode is {mode!r}, but must be TRAIN, EVAL, PREDICT or GLOBAL"
        )
    return Options(
        for_steps=numbers.get("for_steps", 1),
        start_step=numbers.get("start_step", 0),
        every=numbers.get("every", 1),
        end_step=limits["end_step"],
        resolve=limits["resolve"],
        grace_steps=0 if seconds else _whole(config.rule, "grace", grace, 0),
        grace_seconds=seconds,
        mode=Mode[mode] if mode and mode != Mode.GLOBAL.name else None,
        include=_patterns(config.rule, "include", as_tuple(config.include)),
        exclude=_patterns(config.rule, "exclude", as_tuple(config.exclude)),
    )


def _whole(rule: str, key: str, value: Any, least: int) -> int:
    try:
        number: int = msgspec.convert(value, int, strict=False)
    except msgspec.ValidationError:
        number = least - 1
    if number < least:
        raise BadRule(f"{rule}: {key} is {value!r}, but must be a whole number from {least} on")
    return number


def _seconds(rule: str, grace: Any) -> float:
    """The seconds in ``30s``, ``2m``, ``1h``; 0 where grace counts steps."""
    if not isinstance(grace, str) or grace.isdigit():
        return 0.0
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(s|m|h)", grace)
    if not match:
        raise BadRule(f"{rule}: grace is {grace!r}, but must be a number of steps or like 30s, 2m")
    return float(match[1]) * {"s": 1, "m": 60, "h": 3600}[match[2]]


def _patterns(rule: str, key: str, patterns: tuple[str, ...]) -> tuple[str, ...]:
    for pattern in patterns:
        try:
            search(pattern, "")
        except BadPattern as error:
            raise BadRule(f"{rule}: {key}: {error}") from error
    return patterns


def _fingerprint(profile: str, config: RuleConfig) -> str:
    """Changes when the rule would judge differently: then its state begins anew."""
    judged = dataclasses.replace(config, severity=None, actions=None, inhibits=())
    return hashlib.sha256(msgspec.json.encode((profile, judged), order="sorted")).hexdigest()[:16]

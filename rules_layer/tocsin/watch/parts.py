"""A watch file part by part: the parts that can be used, and a fault for each other part."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from enum import EnumMeta
from reprlib import repr as short  # what a file says may be long
from typing import Any, get_args, get_type_hints

import msgspec

from tocsin.parsing import TIME_EXAMPLE, moment
from tocsin.watch.capture import to_capture
from tocsin.watch.config import Capture, Machine, Notify, Relaunch, RuleConfig, Watch
from tocsin.watch.errors import BadWatch, Fault, Path, instead_of, message
from tocsin.watch.sagemaker import from_debug_rule_configurations
from tocsin.watch.silence import Silence

MOST_RULES = 200
MOST_SILENCES = 100

# The keys of each section and their types. The id of a silence belongs to the store.
_KNOWN: dict[type[Any], dict[str, Any]] = {
    into: get_type_hints(into, include_extras=True)
    for into in (Watch, Machine, Notify, Relaunch, RuleConfig, Silence)
}
del _KNOWN[Silence]["id"]

_STEP = re.compile(r"\[(\d+)\]|\.(\w+)")

Found = list[Fault]
_Reader = Callable[[Any, Path, Found], Any]


def to_parts(content: Any, now: datetime | None = None) -> tuple[Watch, tuple[Fault, ...]]:
    """Plain data, as JSON or YAML gives it, as a Watch of the usable parts, and the faults.

    Faults are unknown keys, values of a wrong type, rules of one name, silences without an end, and
    with ``now`` (aware) silences that have ended. Raises BadWatch if no part can be used.
    """
    if content is None:
        return Watch(), ()
    if isinstance(content, Mapping) and "DebugRuleConfigurations" in content:
        content = content["DebugRuleConfigurations"]
    if isinstance(content, list):
        content = _from_sagemaker(content)
    if not isinstance(content, Mapping):
        raise BadWatch(f"expected a mapping with `rules`, got {type(content).__name__}")
    readers = {"capture": _capture, "notify": _notify, "rules": _rules, "silences": _silences}
    readers |= {"machine": _machine, "relaunch": _relaunch}
    found: Found = []
    watch = Watch(**_fields(content, Watch, (), found, readers))
    found += _expired(content, now) if now is not None else ()
    return watch, tuple(found)


def _from_sagemaker(configurations: list[Any]) -> dict[str, Any]:
    for at, item in enumerate(configurations):
        if not isinstance(item, Mapping) or "RuleConfigurationName" not in item:
            raise BadWatch(f"[{at}] has no RuleConfigurationName: put other rules under `rules:`")
    return from_debug_rule_configurations(configurations)


def _fields(
    content: Any, into: type[Any], path: Path, found: Found, readers: Mapping[str, _Reader]
) -> dict[str, Any]:
    """The fields of ``into`` that the content has and that can be used."""
    known = _KNOWN[into]
    fields = {}
    for key, value in _convert(content, dict[str, Any], path, found, {}).items():
        at = (*path, key)
        if key not in known:
            found.append(Fault(at, f"unknown key {short(key)}: {instead_of(key, known)}"))
        elif key in readers:
            fields[key] = readers[key](value, at, found)
        elif (used := _convert(value, known[key], at, found, msgspec.UNSET)) is not msgspec.UNSET:
            fields[key] = used
    return fields


def _convert(value: Any, into: Any, path: Path, found: Found, otherwise: Any) -> Any:
    try:
        return msgspec.convert(value, into, strict=False)
    except msgspec.ValidationError as error:
        text, _, deeper = str(error).rpartition(" - at `$")
        steps = [int(at) if at else key for at, key in _STEP.findall(deeper)] if text else []
        told = message(ValueError(text or deeper))
        if told.startswith("invalid enum value") and (values := _values(into)):
            told += f": known are {', '.join(sorted(values))}"
        found.append(Fault((*path, *steps), told))
        return otherwise


def _values(into: Any) -> list[str]:
    """The values of an enumeration or of literals; empty for other types."""
    found = [each for each in (into, *get_args(into)) if each is not None]
    members: list[str] = []
    for each in found:
        members += map(str, each) if isinstance(each, EnumMeta) else ()
    return members or [each for each in found if isinstance(each, str)]


def _rules(content: Any, path: Path, found: Found) -> tuple[RuleConfig, ...] | None:
    """One rule for each item, so that indexes in faults stay right."""
    listed = _convert(content, list[Any] | None, path, found, None)
    if listed is None:
        return None
    if len(listed) > MOST_RULES:
        text = f"{len(listed)} rules, but at most {MOST_RULES} are watched for one run"
        found.append(Fault(path, text))
    rules = []
    for at, item in enumerate(listed[:MOST_RULES]):
        item = {"rule": item} if isinstance(item, str) else item  # by its name alone
        fields = _fields(item, RuleConfig, (*path, at), found, {})
        if isinstance(item, Mapping) and "rule" not in item:
            found.append(Fault((*path, at), "has no `rule`: name one"))
        rules.append(RuleConfig(**{"rule": "", **fields}))
    names = [rule.configuration_name for rule in rules]
    times = Counter(names)
    for at, name in enumerate(names):
        if name in names[:at]:
            text = f"{short(name)} is used {times[name]} times: give each rule its own `name`"
            found.append(Fault((*path, at), text))
    return tuple(rules)


def _capture(content: Any, path: Path, found: Found) -> Capture:
    try:
        return to_capture(content)
    except BadWatch as error:
        found.append(Fault(path, str(error).removeprefix("capture: ")))
        return Capture()


def _notify(content: Any, path: Path, found: Found) -> Notify:
    return Notify(**_fields(content, Notify, path, found, {}))


def _relaunch(content: Any, path: Path, found: Found) -> Relaunch:
    return Relaunch(**_fields(content, Relaunch, path, found, {}))


def _machine(content: Any, path: Path, found: Found) -> Machine:
    """The section; without content all defaults."""
    machine = Machine(**_fields({} if content is None else content, Machine, path, found, {}))
    try:
        _ = machine.seconds
    except ValueError as error:
        found.append(Fault((*path, "interval"), str(error)))
        return replace(machine, interval=Machine().interval)
    return machine


def _silences(content: Any, path: Path, found: Found) -> tuple[Silence, ...]:
    """The silences without a fault: one without a key would cover more than it should."""
    listed = _convert(content, list[Any], path, found, [])
    if len(listed) > MOST_SILENCES:
        found.append(Fault(path, f"{len(listed)} silences, but at most {MOST_SILENCES} are kept"))
    silences = []
    for at, item in enumerate(listed[:MOST_SILENCES]):
        faults = len(found)
        fields = _fields(item, Silence, (*path, at), found, {"until": _until})
        if isinstance(item, Mapping) and "until" not in item:
            text = f"has no `until`: say when it ends, such as {TIME_EXAMPLE}"
            found.append(Fault((*path, at), text))
        if len(found) == faults:
            silences.append(Silence(**fields))
    return tuple(silences)


def _until(content: Any, path: Path, found: Found) -> datetime | None:
    until = moment(content)
    if until is None:
        text = f"{short(content)} is not a time with a time zone, such as {TIME_EXAMPLE}"
        found.append(Fault(path, text))
    return until


def _expired(content: Mapping[str, Any], now: datetime) -> Iterator[Fault]:
    listed = content.get("silences")
    for at, item in enumerate(listed if isinstance(listed, list) else ()):
        until = moment(item.get("until")) if isinstance(item, Mapping) else None
        if until is not None and until <= now:
            yield Fault(("silences", at, "until"), f"{short(item['until'])} has expired")

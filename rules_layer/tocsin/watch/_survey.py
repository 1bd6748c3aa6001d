"""What of a watch file can be used, and what cannot, part by part."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timezone
from reprlib import repr as short  # what a file says may be long
from typing import Any, get_type_hints

import msgspec

from tocsin.watch._bad import BadWatch, Fault, Path, plain
from tocsin.watch._capture import to_capture
from tocsin.watch._config import Capture, Notify, RuleConfig, Watch
from tocsin.watch._content import plain_data
from tocsin.watch._sagemaker import from_debug_rule_configurations
from tocsin.watch._silence import Silence

MOST_RULES = 200
MOST_SILENCES = 100

# What each section may say, and its type; a silence's id is the store's.
_KNOWN: dict[type[Any], dict[str, Any]] = {
    into: get_type_hints(into, include_extras=True) for into in (Watch, Notify, RuleConfig, Silence)
}
del _KNOWN[Silence]["id"]

_STEP = re.compile(r"\[(\d+)\]|\.(\w+)")

Found = list[Fault]
_Reader = Callable[[Any, Path, Found], Any]


def survey(
    data: bytes, *, yaml: bool = False, now: datetime | None = None
) -> tuple[Watch, tuple[Fault, ...]]:
    """What of a watch file's content can be used, and a fault for each part that cannot: unknown
    keys, values of a wrong type, rules of one name, silences without an end; with ``now`` (aware)
    also those that are over. What is there but means nothing is for ``faults``.

    Raises BadWatch if nothing of it can be read.
    """
    return surveyed(plain_data(data, yaml=yaml), now)


def surveyed(content: Any, now: datetime | None = None) -> tuple[Watch, tuple[Fault, ...]]:
    """Plain data (what JSON or YAML gives) as a Watch without the parts that cannot be used, and
    a fault for each of these. With ``now``, a silence that is over is a fault, too.

    Raises BadWatch if the whole is nothing of the kind.
    """
    if content is None:
        return Watch(), ()
    if isinstance(content, Mapping) and "DebugRuleConfigurations" in content:
        content = content["DebugRuleConfigurations"]
    if isinstance(content, list):
        content = _amazons(content)
    if not isinstance(content, Mapping):
        raise BadWatch(f"expected a mapping with `rules`, got {type(content).__name__}")
    readers = {"capture": _capture, "notify": _notify, "rules": _rules, "silences": _silences}
    found: Found = []
    watch = Watch(**_fields(content, Watch, (), found, readers))
    found += _expired(content, now) if now is not None else ()
    return watch, tuple(found)


def _amazons(configurations: list[Any]) -> dict[str, Any]:
    for at, item in enumerate(configurations):
        if not isinstance(item, Mapping) or "RuleConfigurationName" not in item:
            raise BadWatch(f"[{at}] has no RuleConfigurationName: put other rules under `rules:`")
    return from_debug_rule_configurations(configurations)


def _fields(
    content: Any, into: type[Any], path: Path, found: Found, readers: Mapping[str, _Reader]
) -> dict[str, Any]:
    """The fields of ``into`` that the content has, as far as they can be used."""
    known = _KNOWN[into]
    fields = {}
    for key, value in _convert(content, dict[str, Any], path, found, {}).items():
        at = (*path, key)
        if key not in known:
            found.append(Fault(at, f"unknown key: known are {', '.join(sorted(known))}"))
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
        found.append(Fault((*path, *steps), plain(ValueError(text or deeper))))
        return otherwise


def _rules(content: Any, path: Path, found: Found) -> tuple[RuleConfig, ...] | None:
    """One rule for each in the list, so that places stay true."""
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
            found.append(Fault((*path, at), "has no `rule`: say which one"))
        rules.append(RuleConfig(**{"rule": "", **fields}))
    names = [rule.configuration_name for rule in rules]
    times = Counter(names)
    for at, name in enumerate(names):
        if name in names[:at]:
            text = f"{short(name)} stands {times[name]} times: give each its own `name`"
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


def _silences(content: Any, path: Path, found: Found) -> tuple[Silence, ...]:
    """Those that can be used altogether: half of one would hold back something else."""
    listed = _convert(content, list[Any], path, found, [])
    if len(listed) > MOST_SILENCES:
        found.append(Fault(path, f"{len(listed)} silences, but at most {MOST_SILENCES} are kept"))
    silences = []
    for at, item in enumerate(listed[:MOST_SILENCES]):
        faults = len(found)
        fields = _fields(item, Silence, (*path, at), found, {"until": _until})
        if isinstance(item, Mapping) and "until" not in item:
            text = "has no `until`: say when it ends, such as 2026-12-01T08:00:00Z"
            found.append(Fault((*path, at), text))
        if len(found) == faults:
            silences.append(Silence(**fields))
    return tuple(silences)


def _until(content: Any, path: Path, found: Found) -> datetime | None:
    until = _time(content)
    if until is None:
        text = f"{short(content)} is no time with its zone, such as 2026-12-01T08:00:00Z"
        found.append(Fault(path, text))
    return until


def _time(content: Any) -> datetime | None:
    """In UTC; None also for a time that UTC has no year for."""
    try:
        time = msgspec.convert(content, datetime) if isinstance(content, str) else None
        return None if time is None or time.tzinfo is None else time.astimezone(timezone.utc)
    except (msgspec.ValidationError, OverflowError):
        return None


def _expired(content: Mapping[str, Any], now: datetime) -> Iterator[Fault]:
    listed = content.get("silences")
    for at, item in enumerate(listed if isinstance(listed, list) else ()):
        until = _time(item.get("until")) if isinstance(item, Mapping) else None
        if until is not None and until <= now:
            yield Fault(("silences", at, "until"), f"{short(item['until'])} has expired")

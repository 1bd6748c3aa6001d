"""A watch file becomes a Watch: YAML or JSON, ours or Amazon's DebugRuleConfigurations."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from reprlib import repr as short  # what a file says may be long
from typing import Any

import msgspec

from tocsin.watch._bad import BadWatch, plain
from tocsin.watch._capture import plain_capture, to_capture
from tocsin.watch._config import Capture, Notify, RuleConfig, Watch
from tocsin.watch._sagemaker import from_debug_rule_configurations

MOST_RULES = 200
MOST_BYTES = 1 << 20


def read_watch(path: str | Path) -> Watch:
    """The watch file at ``path``, YAML or JSON. Raises BadWatch, OSError."""
    path = Path(path)
    if path.stat().st_size > MOST_BYTES:
        raise BadWatch(f"{path}: larger than {MOST_BYTES} bytes")
    try:
        return parse_watch(path.read_bytes(), yaml=path.suffix in (".yaml", ".yml"))
    except BadWatch as error:
        raise BadWatch(f"{path}: {error}") from error


def parse_watch(data: bytes, *, yaml: bool = False) -> Watch:
    """A watch file's content. Raises BadWatch."""
    return to_watch(_yaml(data) if yaml else _json(data))


def encode_watch(watch: Watch) -> bytes:
    """A Watch as ``watch.json`` carries it."""
    content = msgspec.to_builtins(dataclasses.replace(watch, capture=Capture()))
    content["capture"] = plain_capture(watch.capture)
    return msgspec.json.format(msgspec.json.encode(content), indent=1)


def to_watch(content: Any) -> Watch:
    """Plain data (what JSON or YAML gives) as a Watch. Raises BadWatch."""
    if content is None:
        return Watch()
    if isinstance(content, Mapping) and "DebugRuleConfigurations" in content:
        content = content["DebugRuleConfigurations"]
    if isinstance(content, list):
        content = _amazons(content)
    if not isinstance(content, Mapping):
        raise BadWatch(f"expected a mapping with `rules`, got {type(content).__name__}")
    _refuse_unknown(content)
    rules = content.get("rules")
    if isinstance(rules, list):  # a rule given by its name alone has no parameters
        rules = [{"rule": rule} if isinstance(rule, str) else rule for rule in rules]
        content = {**content, "rules": rules}
    capture = to_capture(content["capture"]) if "capture" in content else Capture()
    rest = {key: value for key, value in content.items() if key != "capture"}
    try:
        watch = msgspec.convert(rest, Watch, strict=False)
    except msgspec.ValidationError as error:
        raise BadWatch(plain(error)) from error
    return _checked(dataclasses.replace(watch, capture=capture))


def _amazons(configurations: list[Any]) -> dict[str, Any]:
    for at, item in enumerate(configurations):
        if not isinstance(item, Mapping) or "RuleConfigurationName" not in item:
            raise BadWatch(f"[{at}] has no RuleConfigurationName: put other rules under `rules:`")
    return from_debug_rule_configurations(configurations)


def _checked(watch: Watch) -> Watch:
    rules = watch.rules or ()
    if len(rules) > MOST_RULES:
        raise BadWatch(f"{len(rules)} rules, but at most {MOST_RULES} are watched for one run")
    names = Counter(rule.configuration_name for rule in rules)
    for name, times in names.items():
        if times > 1:
            raise BadWatch(f"rules: {name!r} stands {times} times: give each its own `name`")
    return watch


def _refuse_unknown(content: Mapping[str, Any]) -> None:
    """A key that nobody knows is a typo; msgspec would pass over it."""
    _keys("", content, Watch)
    _keys("notify: ", content.get("notify"), Notify)
    rules = content.get("rules")
    for at, rule in enumerate(rules if isinstance(rules, list) else ()):
        _keys(f"rules[{at}]: ", rule, RuleConfig)


def _keys(where: str, content: Any, into: type[Any]) -> None:
    known = [field.name for field in dataclasses.fields(into)]
    for key in content if isinstance(content, Mapping) else ():
        if key not in known:
            raise BadWatch(f"{where}unknown key {short(key)}: known are {', '.join(sorted(known))}")


def _json(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (ValueError, RecursionError) as error:  # not UTF-8 is a ValueError, no DecodeError
        raise BadWatch(f"not JSON: {plain(error)}") from error


def _yaml(data: bytes) -> Any:
    try:
        import yaml
    except ImportError as error:
        raise BadWatch("YAML needs PyYAML: pip install 'tocsin[cli]', or write JSON") from error
    try:
        content = yaml.safe_load(data)
    except Exception as error:  # `!!bool x` is a KeyError there, and so on
        raise BadWatch(f"not YAML: {plain(error)}") from error
    try:  # dates, .nan and the like, which would not survive being stored as JSON
        return msgspec.json.decode(json.dumps(content, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise BadWatch(f"a value that JSON does not have: {plain(error)}") from error

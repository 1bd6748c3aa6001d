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

from tocsin.watch._config import Capture, CollectionConfig, Notify, RuleConfig, Watch
from tocsin.watch._sagemaker import from_debug_rule_configurations

MOST_RULES = 200
MOST_BYTES = 1 << 20


class BadWatch(ValueError):
    """A watch file is wrong; the message is one line that says where and how to mend it."""


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
    return msgspec.json.format(msgspec.json.encode(watch), indent=1)


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
    try:
        watch = msgspec.convert(content, Watch, strict=False)
    except msgspec.ValidationError as error:
        raise BadWatch(_plain(error)) from error
    return _checked(watch)


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
    _keys("capture: ", capture := content.get("capture"), Capture)
    collections = capture.get("collections") if isinstance(capture, Mapping) else None
    for name, collection in collections.items() if isinstance(collections, Mapping) else ():
        _keys(f"capture.collections[{short(name)}]: ", collection, CollectionConfig)
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
        raise BadWatch(f"not JSON: {_plain(error)}") from error


def _yaml(data: bytes) -> Any:
    try:
        import yaml
    except ImportError as error:
        raise BadWatch("YAML needs PyYAML: pip install 'tocsin[cli]', or write JSON") from error
    try:
        content = yaml.safe_load(data)
    except Exception as error:  # `!!bool x` is a KeyError there, and so on
        raise BadWatch(f"not YAML: {_plain(error)}") from error
    try:  # dates, .nan and the like, which would not survive being stored as JSON
        return msgspec.json.decode(json.dumps(content, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise BadWatch(f"a value that JSON does not have: {_plain(error)}") from error


def _plain(error: BaseException) -> str:
    """msgspec's message with the place in our words: ``Expected … - at `$.rules[0]```."""
    text = " ".join(str(error).split()).replace("`$.", "`").replace("`$`", "the top level")
    if text[1:2].islower():  # not JSON, YAML
        text = text[0].lower() + text[1:]
    return text[:500]

"""Which rules there are, and how a name with parameters becomes a rule."""

from __future__ import annotations

import dataclasses
import difflib
import re
import typing
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any, TypeVar

import msgspec

from tocsin.rules._rule import PROFILES, RECOMMENDED, SAGEMAKER, Rule

R = TypeVar("R", bound=type[Rule])

OPTIONS = ("for_steps", "start_step", "end_step", "every", "grace", "resolve", "mode")
"""What the engine does for every rule alike; a rule may give them other defaults."""

# Set by the service or by its SDK, meaningless here: which job, and how to start a container.
_IGNORED = frozenset({"base_trial", "rule_to_invoke", "source_s3_uri", "action_json"})

_ITEM = re.compile(r"([a-z_]+?)(?:_(\d{1,4}))?")

_rules: dict[str, type[Rule]] = {}


class BadRule(ValueError):
    """A rule's name or parameters are wrong; the message says what and how to mend it."""


def register(rule: R) -> R:
    """Add a rule under its class name, as what the engine runs for it: itself, for a native one.

    Raises TypeError at once if it is not well formed.
    """
    given, name = rule, rule.__name__
    if hasattr(rule, "native"):
        rule = rule.native()
    if not issubclass(rule, Rule) or "__dataclass_fields__" not in vars(rule):
        raise TypeError(f"rule {name}: must derive from Rule and be a dataclass(frozen=True)")
    if (rule.__doc__ or f"{name}(").startswith(f"{name}("):  # dataclass invents one if missing
        raise TypeError(f"rule {name}: needs a docstring, its first line is what alerts say")
    if name in _rules and _origin(_rules[name]) != _origin(rule):
        raise TypeError(f"rule {name}: another rule is registered under this name")
    allowed = {field.name for field in dataclasses.fields(rule)} | set(OPTIONS)
    for unknown in (set(rule.sagemaker) | set(rule.options)) - allowed:
        raise TypeError(f"rule {name}: {unknown!r} is neither a parameter nor an engine option")
    for field in dataclasses.fields(rule):
        if field.default is dataclasses.MISSING:
            raise TypeError(f"rule {name}: parameter {field.name} needs a default")
    try:  # what is wrong with its types or defaults shows here, not in somebody's night
        typing.get_type_hints(rule)
        for profile in PROFILES:
            _instance(rule, defaults(rule, profile))
    except (NameError, ValueError) as error:
        raise TypeError(f"rule {name}: {error}") from error
    _rules[name] = rule
    return given


def forget(module: str) -> None:
    """Take out the rules of a module, which turned out not to be in order."""
    for name in [name for name, rule in _rules.items() if rule.__module__ == module]:
        del _rules[name]


def _origin(rule: type[Rule]) -> tuple[str, str]:
    """Where a class was written: the same when its module is only loaded once more."""
    return rule.__module__, rule.__qualname__


def load_entry_points() -> None:
    """Import the rules that other distributions offer in the entry-point group ``tocsin.rules``."""
    for entry in entry_points(group="tocsin.rules"):
        entry.load()


def rule_names(profile: str | None = None) -> tuple[str, ...]:
    """Every rule, or those that watch in a profile without being asked for."""
    return tuple(
        name for name, rule in sorted(_rules.items()) if profile is None or profile in rule.profiles
    )


def find_rule(name: str) -> type[Rule] | None:
    """The rule of that name, or None."""
    return _rules.get(name)


def get_rule(name: str) -> type[Rule]:
    """The rule of that name. Raises BadRule, naming the nearest ones."""
    rule = _rules.get(name)
    if rule is None:
        near = difflib.get_close_matches(name, _rules, n=1)
        hint = f"did you mean {near[0]}?" if near else "`tocsin rules` lists them"
        raise BadRule(f"unknown rule {name!r}: {hint}")
    return rule


def defaults(rule: type[Rule], profile: str) -> dict[str, Any]:
    """The parameters and engine options of a rule in a profile, by name."""
    if profile not in PROFILES:
        raise BadRule(f"unknown profile {profile!r}: use {' or '.join(PROFILES)}")
    values: dict[str, Any] = {field.name: field.default for field in dataclasses.fields(rule)}
    return {**values, **(rule.sagemaker if profile == SAGEMAKER else rule.options)}


def build(
    name: str, parameters: Mapping[str, Any], profile: str = RECOMMENDED
) -> tuple[Rule, dict[str, Any]]:
    """A rule from parameters as typed or as on the wire, where every value is a string.

    Returns the rule and the engine options among its defaults and parameters.
    Raises BadRule on an unknown rule or parameter, or a value that does not fit.
    """
    rule = get_rule(name)
    types = typing.get_type_hints(rule)
    fields = {field.name for field in dataclasses.fields(rule)}
    values = defaults(rule, profile)
    for key, value in _gathered(parameters, types).items():
        if key in _IGNORED:
            continue
        if key not in fields and key not in OPTIONS:
            near = difflib.get_close_matches(key, [*fields, *OPTIONS], n=1)
            hint = f"did you mean {near[0]}?" if near else f"`tocsin rules {name}` lists them"
            raise BadRule(f"{name}: unknown parameter {key!r}: {hint}")
        values[key] = _convert(name, key, value, types[key]) if key in fields else value
    try:
        built = _instance(rule, values)
    except ValueError as error:
        raise BadRule(f"{name}: {error}") from error
    return built, {key: value for key, value in values.items() if key not in fields}


def _gathered(parameters: Mapping[str, Any], types: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters with lists put together that Amazon's SDK sends item by item, in the order
    of their numbers: ``other_trial_0``, ``other_trial_1`` … are ``other_trials``.
    """
    items: dict[str, dict[int, Any]] = {}
    rest = {}
    for key, value in parameters.items():
        item = _ITEM.fullmatch(key)
        if item and key not in types and typing.get_origin(types.get(f"{item[1]}s")) is tuple:
            items.setdefault(f"{item[1]}s", {})[int(item[2] or 0)] = value
        else:
            rest[key] = value
    return rest | {key: [each[at] for at in sorted(each)] for key, each in items.items()}


def _instance(rule: type[Rule], values: Mapping[str, Any]) -> Rule:
    """The rule with those of ``values`` that are its parameters."""
    return rule(**{field.name: values[field.name] for field in dataclasses.fields(rule)})


def _convert(rule: str, key: str, value: Any, to: Any) -> Any:
    """A parameter in its type: from JSON, or from the string that the wire carries."""
    wants_list = typing.get_origin(to) is tuple
    if wants_list and isinstance(value, str):
        if value.strip().lower() == "none":
            return ()
        if float in typing.get_args(to):  # a tuple as Python prints it
            value = value.strip().strip("()[]")
        value = [part.strip() for part in value.split(",") if part.strip()]
    if isinstance(value, str) and value.strip().lower() in ("none", "") and _optional(to):
        return None
    try:
        return msgspec.convert(value, to, strict=False)
    except msgspec.ValidationError as error:
        raise BadRule(f"{rule}: parameter {key}: {_lower_first(str(error))}") from error


def _optional(to: Any) -> bool:
    return type(None) in typing.get_args(to)


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]

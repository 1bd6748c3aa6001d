"""The registry of rules by name, and the creation of rules with parameters."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from itertools import chain
from pkgutil import iter_modules
from typing import Any, TypeVar

from tocsin.rules._parameters import BadRule, check, converted, gathered, parameters_of
from tocsin.rules._rule import PROFILES, RECOMMENDED, SAGEMAKER, SUBJECTS, Rule

R = TypeVar("R", bound=type[Rule])

OPTIONS = ("for_steps", "start_step", "end_step", "every", "grace", "resolve", "mode")
"""The engine's options for every rule; a rule may give them other defaults."""

ENTRY_POINTS = "tocsin.rules"
"""The group of entry points with which a distribution names its modules of rules."""

# Set by the service or by its SDK, without meaning here: which job, how to start a container.
_IGNORED = frozenset({"base_trial", "rule_to_invoke", "source_s3_uri", "action_json"})

_rules: dict[str, type[Rule]] = {}
_modules: dict[str, str] = {}
"""The place of each rule by its lower-case name; a rule is loaded on first use."""

_styles: dict[type, Callable[[Any], type[Rule]]] = {}


def register(given: R) -> R:
    """Register a rule under its class name. A rule written for smdebug is adapted first.

    Raises TypeError at once if the rule is not well formed.
    """
    rule: type[Rule] = given
    name = given.__name__
    for base, convert in _styles.items():
        if issubclass(given, base):
            rule = convert(given)
    if not issubclass(rule, Rule) or "__dataclass_fields__" not in vars(rule):
        raise TypeError(f"rule {name}: must derive from Rule and be a dataclass(frozen=True)")
    if (rule.__doc__ or f"{name}(").startswith(f"{name}("):  # dataclass invents one if missing
        raise TypeError(f"rule {name}: needs a docstring, its first line is what alerts say")
    if _modules.get(name.lower()) != rule.__module__:
        find_rule(name)  # loads the one of ours that has this name
    if name in _rules and _origin(_rules[name]) != _origin(rule):
        raise TypeError(f"rule {name}: another rule is registered under this name")
    allowed = {field.name for field in dataclasses.fields(rule)} | set(OPTIONS)
    for unknown in {*rule.sagemaker, *rule.options, *chain(*rule.alternatives)} - allowed:
        raise TypeError(f"rule {name}: {unknown!r} is neither a parameter nor an engine option")
    if rule.about not in SUBJECTS:
        raise TypeError(f"rule {name}: about is {rule.about!r}, but must be training or machine")
    if isinstance(rule.inhibits, str) and "inhibits" not in allowed:
        raise TypeError(f"rule {name}: inhibits is a text, but must be a tuple of rule names")
    for field in dataclasses.fields(rule):
        if field.default is dataclasses.MISSING:
            raise TypeError(f"rule {name}: parameter {field.name} needs a default")
    try:  # faults in types and defaults show here, not during a training
        parameters_of(rule)
        for profile in PROFILES:
            _instance(rule, defaults(rule, profile))
    except BadRule as error:
        raise TypeError(f"rule {error}") from error
    except (NameError, TypeError, ValueError) as error:
        raise TypeError(f"rule {name}: {error}") from error
    _rules[name] = rule
    return given


def register_style(base: type, convert: Callable[[Any], type[Rule]]) -> None:
    """Make ``register`` accept classes that derive from ``base``; ``convert`` turns them into
    rules.
    """
    _styles[base] = convert


def locate(package: str, path: Iterable[str]) -> None:
    """Make the rules of a package and its subpackages known, without loading them: each is in the
    module of its name. A module whose name begins with ``_`` is a helper.
    """
    for module in iter_modules(path):
        if module.ispkg:
            locate(f"{package}.{module.name}", [f"{folder}/{module.name}" for folder in path])
        elif not module.name.startswith("_"):
            _modules[module.name.replace("_", "")] = f"{package}.{module.name}"


def _load(lowered: str) -> None:
    """Load the rule of that lower-case name, if it is in a package that was located."""
    if lowered in _modules:
        module = import_module(_modules[lowered])
        found = {name: value for name, value in vars(module).items() if name.lower() == lowered}
        _rules.update(found)


def _load_all() -> None:
    loaded = {name.lower() for name in _rules}
    for lowered in _modules.keys() - loaded:
        _load(lowered)


def load_packages() -> None:
    """Load the rules of other distributions: their entry points in the group ``tocsin.rules``."""
    for entry in entry_points(group=ENTRY_POINTS):
        entry.load()


def forget(module: str) -> None:
    """Remove the rules of a module that failed to load."""
    for name in [name for name, rule in _rules.items() if rule.__module__ == module]:
        del _rules[name]


def _origin(rule: type[Rule]) -> tuple[str, str]:
    """The place where a class is written: the same when its module is loaded again."""
    return rule.__module__, rule.__qualname__


def rule_names(profile: str | None = None, about: str | None = None) -> tuple[str, ...]:
    """Return the names of all rules, or of those that are active by default in a profile.

    With ``about`` only those about the training, or the machine.
    """
    _load_all()
    return tuple(
        name
        for name, rule in sorted(_rules.items())
        if (profile is None or profile in rule.profiles) and about in (None, rule.about)
    )


def find_rule(name: str) -> type[Rule] | None:
    """Return the rule of that name, or None."""
    if name not in _rules:
        _load(name.lower())
    return _rules.get(name)


def get_rule(name: str) -> type[Rule]:
    """Return the rule of that name. Raises BadRule, naming the nearest ones."""
    rule = find_rule(name)
    if rule is None:
        _load_all()
        near = difflib.get_close_matches(name, _rules, n=1)
        hint = f"did you mean {near[0]}?" if near else "`tocsin rules` lists them"
        raise BadRule(f"unknown rule {name!r}: {hint}")
    return rule


def defaults(rule: type[Rule], profile: str) -> dict[str, Any]:
    """Return the parameters and engine options of a rule in a profile, by name."""
    if profile not in PROFILES:
        raise BadRule(f"unknown profile {profile!r}: use {' or '.join(PROFILES)}")
    values: dict[str, Any] = {field.name: field.default for field in dataclasses.fields(rule)}
    return {**values, **(rule.sagemaker if profile == SAGEMAKER else rule.options)}


def build(
    name: str, parameters: Mapping[str, Any], profile: str = RECOMMENDED
) -> tuple[Rule, dict[str, Any]]:
    """Make a rule from parameters, typed or as strings.

    Returns the rule and the engine options among its defaults and parameters.
    Raises BadRule for an unknown rule or parameter, and for a value that does not fit.
    """
    rule = get_rule(name)
    known = parameters_of(rule)
    values = defaults(rule, profile)
    named: set[str] = set()
    for key, value in gathered(parameters, known).items():
        if key in _IGNORED:
            continue
        if key not in known and key not in OPTIONS:
            near = difflib.get_close_matches(key, [*known, *OPTIONS], n=1)
            hint = f"did you mean {near[0]}?" if near else f"`tocsin rules {name}` lists them"
            raise BadRule(f"{name}: unknown parameter {key!r}: {hint}")
        values[key] = converted(name, key, value, known[key]) if key in known else value
        named.add(key)
    for group in rule.alternatives:
        if any(values[key] for key in named.intersection(group)):
            values |= {key: known[key].nothing for key in group if key not in named}
    try:
        built = _instance(rule, values)
    except BadRule:
        raise
    except ValueError as error:
        raise BadRule(f"{name}: {error}") from error
    return built, {key: value for key, value in values.items() if key not in known}


def _instance(rule: type[Rule], values: Mapping[str, Any]) -> Rule:
    """The rule with those of ``values`` that are its parameters, checked."""
    built = rule(**{field.name: values[field.name] for field in dataclasses.fields(rule)})
    check(built)  # a __post_init__ of the rule's own may not have called that of Rule
    return built

"""What to watch, as ``--watch``, ``--rule`` and ``--profile`` say it."""

from __future__ import annotations

import re
import typing
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from tocsin.cli._errors import Problem
from tocsin.cli._installed import load_custom_rules, load_rules
from tocsin.cli._output import note
from tocsin.rules import BadRule, get_rule, rule_names
from tocsin.tensors import WATCH, NotFound, RefusedFile, Storage
from tocsin.watch import BadWatch, RuleConfig, Watch, parse_watch, read_watch, resolve, to_watch

_COMMA = re.compile(r"(?<!\\),")
_KEYS = ("name", "include", "exclude")  # of the configuration, where a rule has none of that name
_WATCH_BYTES = 1 << 20


def given_watch(
    file: str | None,
    rules: Sequence[str],
    profile: Literal["recommended", "sagemaker"] | None,
    storage: Storage,
    rule_files: Sequence[str] = (),
) -> Watch | None:
    """The configuration that the command line asks for; None leaves it to the run.

    Rules of ``--rule`` join those of the file, and take the place of one of the same name;
    without a file they are all there is. Rules in files are made known: ``rule_files``, and the
    file's ``custom_rules``. Raises Problem, BadWatch, BadRule and OSError.
    """
    load_rules(rule_files)
    if file is None and not rules and profile is None:
        return None
    watch = read_watch(file) if file else Watch(rules=()) if rules else _own(storage)
    watch = replace(watch, profile=profile or watch.profile)
    if file:
        _load(watch, file)
        _refuse(watch, file)
    if rules:
        added = to_watch({"rules": [rule_option(text) for text in rules]}).rules or ()
        _refuse(replace(watch, rules=added), "--rule")
        watch = replace(watch, rules=_joined(watch, added))
    return watch


def rule_option(text: str) -> dict[str, Any]:
    """``NAME:key=value,…`` as the watch file has it. Raises Problem and BadRule.

    A part without ``=``, or a key said again, adds to a list; ``\\,`` is a comma in a value.
    """
    rule, _, rest = text.partition(":")
    parameters = typing.get_type_hints(get_rule(rule))
    config: dict[str, Any] = {"rule": rule, "parameters": {}}
    for key, values in _pairs(text, rest).items():
        if key in _KEYS and key not in parameters:
            config[key] = values[0] if key == "name" else values
        else:
            wants_list = typing.get_origin(parameters.get(key)) is tuple
            config["parameters"][key] = values if wants_list or len(values) > 1 else values[0]
    return config


def _pairs(option: str, text: str) -> Mapping[str, list[str]]:
    pairs: dict[str, list[str]] = {}
    key = ""
    for part in _COMMA.split(text) if text else ():
        before, equals, after = part.partition("=")
        if equals:
            key = before.strip()
        if not key:
            raise Problem(f"--rule {option}: {part!r} is not of the form key=value")
        pairs.setdefault(key, []).append((after if equals else part).strip().replace("\\,", ","))
    return pairs


def _joined(watch: Watch, added: Sequence[RuleConfig]) -> tuple[RuleConfig, ...]:
    rules = watch.rules
    if rules is None:
        rules = tuple(RuleConfig(name) for name in rule_names(watch.profile))
    names = {rule.configuration_name for rule in added}
    return (*(rule for rule in rules if rule.configuration_name not in names), *added)


def _own(storage: Storage) -> Watch:
    """The run's own configuration; one that cannot be used is passed over, as in Lambda."""
    try:
        watch = parse_watch(storage.read(WATCH, limit=_WATCH_BYTES))
    except NotFound:
        return Watch()
    except (BadWatch, RefusedFile) as error:
        note(f"{storage.url}: refused {WATCH}: {error}")
        return Watch()
    if watch.custom_rules is not None:
        note(f"{storage.url}: refused custom_rules of {WATCH}: name them by --rules")
    return watch


def _load(watch: Watch, file: str) -> None:
    try:
        load_custom_rules(watch, file)
    except BadRule as error:
        raise Problem(f"{file}: {error}") from error


def _refuse(watch: Watch, where: str) -> None:
    """What the command line names must be right, where in Lambda one rule harms no other."""
    _, refused = resolve(watch)
    if refused:
        more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
        raise Problem(f"{where}: {refused[0].reason}{more}")

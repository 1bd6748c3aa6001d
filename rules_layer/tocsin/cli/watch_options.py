"""The configuration from ``--watch``, ``--rule`` and ``--profile``."""

from __future__ import annotations

import re
import typing
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from tocsin.cli.errors import CommandError
from tocsin.cli.output import note
from tocsin.cli.rules import load_custom_rules, load_rules
from tocsin.rules import BadRule, get_rule
from tocsin.tensors import WATCH, NotFound, RefusedFile, Storage
from tocsin.watch import (
    MOST_BASELINES,
    BadWatch,
    RuleConfig,
    Watch,
    configured,
    parse_watch,
    read_watch,
    resolve,
    to_watch,
)

_COMMA = re.compile(r"(?<!\\),")
_KEYS = ("name", "include", "exclude")  # of the configuration, unless a parameter has the name
_WATCH_BYTES = 1 << 20


def given_watch(
    file: str | None,
    rules: Sequence[str],
    profile: Literal["recommended", "sagemaker"] | None,
    storage: Storage,
    rule_files: Sequence[str] = (),
    baselines: Sequence[str] = (),
) -> Watch | None:
    """Return the configuration of the command line; None if the run's own configuration counts.

    Rules of ``--rule`` are added to those of the file, and replace one of the same name. Without a
    file they are the only rules. ``baselines`` take the place of the file's. Loads ``rule_files``
    and the file's ``custom_rules``. Raises CommandError, BadWatch, BadRule and OSError.
    """
    load_rules(rule_files)
    if file is None and not rules and profile is None and not baselines:
        return None
    watch = watch_of(file) if file else Watch(rules=()) if rules else _of_run(storage)
    if baselines:
        watch = replace(watch, baseline=_counted(baselines))
    watch = replace(watch, profile=profile or watch.profile)
    if rules:
        added = to_watch({"rules": [rule_option(text) for text in rules]}).rules or ()
        _refuse(replace(watch, rules=added), "--rule")
        every = _merged(watch, added)
        watch = replace(watch, rules=every, extend_profile=False, disable=())
    return watch


def _counted(baselines: Sequence[str]) -> tuple[str, ...]:
    if len(baselines) > MOST_BASELINES:
        raise CommandError(f"--baseline: {len(baselines)} runs are more than {MOST_BASELINES}")
    return tuple(baselines)


def watch_of(file: str) -> Watch:
    """Return the watch file, with its ``custom_rules`` loaded. Raises as ``given_watch``."""
    watch = read_watch(file)
    _load_custom(watch, file)
    _refuse(watch, file)
    return watch


def rule_option(text: str) -> dict[str, Any]:
    """``NAME:key=value,…`` as an item of a watch file. Raises CommandError and BadRule.

    A part without ``=``, or a repeated key, adds to a list; ``\\,`` is a comma in a value.
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
            raise CommandError(f"--rule {option}: {part!r} is not in the form key=value")
        pairs.setdefault(key, []).append((after if equals else part).strip().replace("\\,", ","))
    return pairs


def _merged(watch: Watch, added: Sequence[RuleConfig]) -> tuple[RuleConfig, ...]:
    rules = configured(watch)
    names = {rule.configuration_name for rule in added}
    return (*(rule for rule in rules if rule.configuration_name not in names), *added)


def _of_run(storage: Storage) -> Watch:
    """The run's own configuration. One that cannot be used is skipped, as in Lambda."""
    try:
        watch = parse_watch(storage.read(WATCH, limit=_WATCH_BYTES))
    except NotFound:
        return Watch()
    except (BadWatch, RefusedFile) as error:
        note(f"{storage.url}: refused {WATCH}: {error}")
        return Watch()
    if watch.custom_rules is not None:
        note(f"{storage.url}: refused custom_rules of {WATCH}: name the files with --rules")
    return watch


def _load_custom(watch: Watch, file: str) -> None:
    try:
        load_custom_rules(watch, file)
    except BadRule as error:
        raise CommandError(f"{file}: {error}") from error


def _refuse(watch: Watch, where: str) -> None:
    """Refuse all for one wrong rule. In Lambda the other rules are evaluated."""
    _, refused = resolve(watch)
    if refused:
        more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
        raise CommandError(f"{where}: {refused[0].reason}{more}")

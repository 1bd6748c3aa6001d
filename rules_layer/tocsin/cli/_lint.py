"""``tocsin lint``: all that is wrong with a watch file, before a job trains under it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich.console import Console

from tocsin.cli._installed import load_custom_rules, load_rules
from tocsin.cli._output import Document
from tocsin.cli._text import plain
from tocsin.rules import BadRule, rule_names
from tocsin.tensors import BadPattern, search
from tocsin.watch import BadWatch, RuleConfig, Watch, action_fault, patterns, read_watch, resolve

_TIME = re.compile(r"\d+(\.\d+)?[smhd]")


def lint_document(file: str, rule_files: Sequence[str] = ()) -> Document:
    """The JSON of ``tocsin lint``. Raises OSError for a file that cannot be read, BadRule if one
    of ``rule_files`` fails.
    """
    load_rules(rule_files)
    try:
        watch = read_watch(file)
    except BadWatch as error:
        return {"file": file, "rules": None, "problems": [str(error).removeprefix(f"{file}: ")]}
    found = list(_custom(watch, file))
    rules = len(rule_names(watch.profile) if watch.rules is None else watch.rules)
    return {"file": file, "rules": rules, "problems": [*found, *problems(watch)]}


def print_lint(document: Document, console: Console) -> None:
    """A file without problems; problems are not an answer but go to stderr."""
    if not document["problems"]:
        rules = "1 rule" if document["rules"] == 1 else f"{document['rules']} rules"
        console.print(plain(f"{document['file']}: {rules}, no problem"), soft_wrap=True)


def _custom(watch: Watch, file: str) -> Iterator[str]:
    """Makes the rules known that the file brings along, or says what is wrong with theirs."""
    try:
        load_custom_rules(watch, file)
    except BadRule as error:
        yield str(error)


def problems(watch: Watch) -> Iterator[str]:
    """Each with the place in the file where it stands."""
    yield from _actions("actions", watch.actions)
    configs = watch.rules or ()
    names = {config.configuration_name for config in configs} or set(rule_names(watch.profile))
    for at, config in enumerate(configs):
        where = f"rules[{at}]"
        yield from (f"{where}: {problem}" for problem in _rule(watch, config))
        yield from _actions(f"{where}.actions", config.actions or ())
        for name in config.inhibits:
            if name not in names:
                yield f"{where}.inhibits: no rule of this file is named {name!r}"
            elif name == config.configuration_name:
                yield f"{where}.inhibits: a rule cannot inhibit itself"
    for name, collection in watch.capture.collections.items():
        yield from _patterns(f"capture.collections[{name!r}].include_regex", patterns(collection))
    for key in ("group_wait", "repeat_interval"):
        value = getattr(watch.notify, key)
        if not _TIME.fullmatch(value):
            yield f"notify.{key}: {value!r} is not a time like 10s, 5m, 4h"


def _rule(watch: Watch, config: RuleConfig) -> Iterator[str]:
    """What keeps a rule from being evaluated; every unknown parameter is named."""
    _, refused = resolve(replace(watch, rules=(config,)))
    if not refused:
        return
    yield refused[0].reason
    unknown = [key for key in config.parameters if f"parameter {key!r}: " in refused[0].reason]
    if unknown:
        rest = {key: value for key, value in config.parameters.items() if key not in unknown}
        yield from _rule(watch, replace(config, parameters=rest))


def _actions(where: str, actions: Sequence[str]) -> Iterator[str]:
    yield from (f"{where}: {wrong}" for action in actions if (wrong := action_fault(action)))


def _patterns(where: str, found: Sequence[str]) -> Iterator[str]:
    for pattern in found:
        try:
            search(pattern, "")
        except BadPattern as error:
            yield f"{where}: {error}"

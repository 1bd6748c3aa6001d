"""Finds the faults of a watch file that can be read, each with its place."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from tocsin.rules import BadRule, get_rule
from tocsin.tensors import BadPattern, search
from tocsin.watch.actions import action_fault
from tocsin.watch.capture import patterns
from tocsin.watch.config import RuleConfig, Watch
from tocsin.watch.configured import configured
from tocsin.watch.errors import Fault, Path
from tocsin.watch.notify_policy import notify_faults
from tocsin.watch.relaunching import relaunch_faults
from tocsin.watch.watched import resolve

_OPTIONS = tuple(field.name for field in dataclasses.fields(RuleConfig))


def faults(watch: Watch) -> Iterator[Fault]:
    """Faults of rules, of patterns, and of notification."""
    for at, config in enumerate(watch.rules or ()):
        yield from _rule_faults(watch, config, at)
    for at, name in enumerate(watch.disable):
        try:
            get_rule(name)
        except BadRule as error:
            yield Fault(("disable", at), str(error))
    yield from alert_faults(watch)
    for name, collection in watch.capture.collections.items():
        path = ("capture", "collections", name, "include_regex")
        yield from _pattern_faults(path, patterns(collection))


def alert_faults(watch: Watch) -> Iterator[Fault]:
    """Faults of actions, inhibition and notification. The rules can still be evaluated."""
    yield from _action_faults(("actions",), watch.actions)
    configs = watch.rules or ()
    names = {config.configuration_name for config in configured(watch)}
    for at, config in enumerate(configs):
        yield from _action_faults(("rules", at, "actions"), config.actions or ())
        for number, name in enumerate(config.inhibits):
            path = ("rules", at, "inhibits", number)
            if name == config.configuration_name:
                yield Fault(path, "a rule cannot inhibit itself")
            elif name not in names:
                yield Fault(path, f"no rule of this file is named {name!r}")
    yield from notify_faults(watch.notify)
    yield from relaunch_faults(watch.relaunch)


def _rule_faults(watch: Watch, config: RuleConfig, at: int) -> Iterator[Fault]:
    """Faults that keep a rule from being evaluated, with one for each unknown parameter."""
    _, refused = resolve(Watch(watch.profile, rules=(config,)))
    if not refused:
        return
    reason = refused[0].reason
    place = _place(config, reason)
    yield Fault(("rules", at, *place), reason)
    if "unknown parameter" in reason and place:
        rest = {key: value for key, value in config.parameters.items() if key != place[-1]}
        yield from _rule_faults(watch, dataclasses.replace(config, parameters=rest), at)


def _place(config: RuleConfig, reason: str) -> Path:
    """The key of a rule's configuration that a reason is about; empty if not known."""
    if reason.startswith("unknown rule"):
        return ("rule",)
    text = reason.removeprefix(f"{config.rule}: ")
    for path in [
        *(("parameters", key) for key in config.parameters),
        *((key,) for key in _OPTIONS),
    ]:
        key = path[-1]
        starts = (f"{key} is ", f"{key}: ", f"parameter {key}: ", f"unknown parameter {key!r}")
        if text.startswith(starts):
            return path
    return ()


def _action_faults(path: Path, actions: Sequence[str]) -> Iterator[Fault]:
    for at, action in enumerate(actions):
        if wrong := action_fault(action):
            yield Fault((*path, at), wrong)
        elif action == "relaunch" and "stop" not in actions:
            text = "relaunch starts a job again that was stopped: write [stop, relaunch]"
            yield Fault((*path, at), text)


def _pattern_faults(path: Path, found: Sequence[str]) -> Iterator[Fault]:
    for pattern in found:
        try:
            search(pattern, "")
        except BadPattern as error:
            yield Fault(path, str(error))

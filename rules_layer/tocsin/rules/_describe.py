"""Describes a rule as data, for the terminal and the pages of the docs."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Mapping
from typing import Any

from tocsin.model import Detail
from tocsin.rules._parameters import RuleParameter, limits, parameters_of
from tocsin.rules._registry import build, defaults, get_rule
from tocsin.rules._rule import PROFILES, Reads, Rule

OPTION_MEANINGS: Mapping[str, tuple[Any, str]] = {
    "for_steps": (1, "consecutive evaluations that must violate"),
    "start_step": (0, "the first step that is evaluated"),
    "end_step": (None, "the first step that is no longer evaluated"),
    "every": (1, "smallest number of steps between two evaluations"),
    "grace": (0, "first steps, or time such as 30s, in which violations do not count"),
    "resolve": (None, "consecutive healthy evaluations that resolve the rule"),
    "mode": (None, "TRAIN, EVAL or PREDICT: evaluates steps of that mode only"),
}
"""The options of every rule, which the engine evaluates: default and meaning."""

Described = dict[str, Any]

_PARAMETERS = re.compile(r"^Parameters\n-+\n(.*?)(?:\n\n|\Z)", re.MULTILINE | re.DOTALL)
_PARAMETER = re.compile(r"(\w+(?:, \w+)*) ?: ?(.*)")


def describe(name: str) -> Described:
    """Return the JSON of ``tocsin rules NAME``. Raises BadRule for an unknown name."""
    rule = get_rule(name)
    text = inspect.cleandoc(rule.__doc__ or "")
    meanings = _meanings(text)
    known = {profile: defaults(rule, profile) for profile in PROFILES}
    own = parameters_of(rule)
    built, _ = build(name, {})
    if not built.reads().tensors and "tensor_regex" in own:  # it reads only what is named
        built, _ = build(name, {"tensor_regex": "…"})
    return {
        "name": name,
        "about": rule.about,
        "summary": summary(rule),
        "description": _PARAMETERS.sub("", text).strip(),
        "parameters": [
            {
                "name": key,
                "type": _type(parameter.type),
                "defaults": {profile: known[profile][key] for profile in PROFILES},
                "meaning": _meaning(meanings.get(key, ""), parameter),
            }
            for key, parameter in own.items()
        ],
        "options": [
            {
                "name": key,
                "defaults": {
                    profile: default if key in own else known[profile].get(key, default)
                    for profile in PROFILES
                },
                "meaning": meaning,
            }
            for key, (default, meaning) in OPTION_MEANINGS.items()
        ],
        "reads": _reads(built.reads()),
        "profiles": list(rule.profiles),
        "causes": rule.causes,
        "advice": rule.advice,
        "advice_for_trees": rule.advice_for_trees,
    }


def summary(rule: type[Rule]) -> str:
    """Return the first line of a rule's docstring, which alerts show."""
    return inspect.cleandoc(rule.__doc__ or "").partition("\n")[0]


def _meanings(text: str) -> Mapping[str, str]:
    """Return the text on each parameter in the docstring. One line may explain several."""
    found = _PARAMETERS.search(text)
    meanings: dict[str, str] = {}
    names: list[str] = []
    for line in found[1].splitlines() if found else ():
        if not line.startswith(" ") and (item := _PARAMETER.fullmatch(line)):
            names = item[1].split(", ")
            meanings |= dict.fromkeys(names, item[2])
        else:
            meanings |= {name: f"{meanings[name]} {line.strip()}".strip() for name in names}
    return meanings


def _meaning(text: str, parameter: RuleParameter) -> str:
    words = limits(parameter.bounds)
    return f"{text} Must be {words}.".strip() if words else text


def _type(hint: Any) -> str:
    """Return a type in words: ``number``, ``list of text``, ``integer or none``."""
    words = {int: "integer", float: "number", bool: "true or false", str: "text", Any: "anything"}
    if hint in words:
        return words[hint]
    if hint is types.NoneType:
        return "none"
    arguments = [item for item in typing.get_args(hint) if item is not Ellipsis]
    if typing.get_origin(hint) is tuple:
        return f"list of {_type(arguments[0])}"
    if typing.get_origin(hint) is typing.Literal:
        return " or ".join(map(str, arguments))
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return " or ".join(map(_type, arguments))
    return getattr(hint, "__name__", str(hint))


def _reads(reads: Reads) -> Described:
    """Describe what a rule reads with the defaults of profile recommended."""
    return {
        "tensors": [
            {
                "name": name,
                "selects": read.describe(),
                "roles": [role.value for role in read.roles],
                "kinds": list(read.kinds),
                "collections": list(read.collections),
                "regex": list(read.regex),
                "fields": list(read.fields),
                "values": read.values,
                "back": read.back,
                "detail": _detail(read.detail),
            }
            for name, read in reads.tensors.items()
        ],
        "time": reads.ticks,
        "runs": list(reads.runs),
        "whole_run": reads.trial,
    }


def _detail(detail: Detail | None) -> list[str]:
    """Describe what a read asks of the summary beyond its plain fields."""
    if detail is None:
        return []
    words = []
    if detail.quantiles:
        words.append(f"quantiles {', '.join(f'{q:g}' for q in detail.quantiles)}")
    if detail.active is not None:
        low, high = (("-∞", "∞")[i] if b is None else f"{b:g}" for i, b in enumerate(detail.active))
        words.append(f"elements of each unit between {low} and {high}")
    if detail.channel_axis is not None:
        words.append(f"mean and variance of each channel (axis {detail.channel_axis})")
    return words

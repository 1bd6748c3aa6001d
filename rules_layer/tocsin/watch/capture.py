"""The section ``capture`` of a watch file: reads, checks and writes it.

The steps of a mode are flat keys there, as in smdebug: ``eval.save_interval``.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator
from reprlib import repr as short  # a text of a file may be long
from typing import Any, TypeVar

import msgspec

from tocsin.model import Mode
from tocsin.tensors import REDUCTIONS
from tocsin.watch.config import Capture, CollectionConfig, SaveConfig
from tocsin.watch.errors import BadWatch, message

Config = TypeVar("Config", Capture, CollectionConfig)
_Any = TypeVar("_Any")

_MODES = {mode.name.lower(): mode for mode in Mode}
_STEP_KEYS = tuple(field.name for field in dataclasses.fields(SaveConfig))
_TOKEN = re.compile(r"\\.|\{\d*,\d*\}|\[\^?\]?|[],()]", re.DOTALL)


def to_capture(content: Any) -> Capture:
    """Plain data, as JSON or YAML gives it, as a Capture. Raises BadWatch."""
    capture = section(content, Capture, "capture")
    collections = convert(content.get("collections", {}), dict[str, Any], "capture.collections")
    named = {
        name: section(collection, CollectionConfig, f"capture.collections[{short(name)}]")
        for name, collection in collections.items()
    }
    return dataclasses.replace(capture, collections=named)


def plain_capture(capture: Capture) -> dict[str, Any]:
    """Return a Capture as plain data of a watch file, without defaults."""
    collections = {name: plain_section(config) for name, config in capture.collections.items()}
    return {**plain_section(capture), **({"collections": collections} if collections else {})}


def known_key(key: str, into: type[Capture] | type[CollectionConfig]) -> bool:
    """Return whether a section may hold the key: one of its own, or a step key of a mode."""
    mode, dot, step_key = key.partition(".")
    return (mode in _MODES and step_key in _STEP_KEYS) if dot else key in _names(into)


def plain_section(config: Capture | CollectionConfig | SaveConfig) -> dict[str, Any]:
    """Return a configuration as plain data, without defaults and collections."""
    default = type(config)()
    plain = {
        field.name: value
        for field in dataclasses.fields(config)
        if (value := getattr(config, field.name)) != getattr(default, field.name)
    }
    plain.pop("collections", None)
    for mode, steps in plain.pop("modes", {}).items():
        prefix = mode.name.lower()
        plain |= {f"{prefix}.{key}": value for key, value in plain_section(steps).items()}
    return plain


def patterns(config: CollectionConfig) -> tuple[str, ...]:
    """Return the patterns of a collection: as listed, or those of one string with commas."""
    found = config.include_regex
    return tuple(_split(found)) if isinstance(found, str) else tuple(found)


def reductions(listed: str | tuple[str, ...]) -> tuple[str, ...]:
    """Reductions as tensor names have them: ``l2`` for ``l2_norm``. Raises BadWatch."""
    names = listed.split(",") if isinstance(listed, str) else listed
    wanted = {_reduction(name.strip()) for name in names if name.strip()}
    return tuple(name for name in REDUCTIONS if name in wanted)


def quantiles(listed: str | tuple[float, ...]) -> tuple[float, ...]:
    """Quantiles in their order, each once. Raises BadWatch."""
    items = (
        [each for each in listed.split(",") if each.strip()] if isinstance(listed, str) else listed
    )
    found = set()
    for each in items:
        try:
            quantile = float(each)
        except ValueError:
            quantile = math.nan
        if not 0 <= quantile <= 1:
            raise BadWatch(f"{short(each)} is not a quantile: it must be a number from 0 to 1")
        found.add(quantile)
    return tuple(sorted(found))


def _reduction(name: str) -> str:
    bare = name.removesuffix("_norm")
    known = bare if bare.removeprefix("abs_") in ("l1", "l2") else name
    if known not in REDUCTIONS:
        names = ", ".join(each for each in REDUCTIONS if not each.startswith("abs_"))
        raise BadWatch(
            f"{short(name)} is not a reduction: there are {names}, and each with abs_ before it"
        )
    return known


def _split(text: str) -> Iterator[str]:
    """Split at commas, but not in a group, a class or a count, nor at escaped ones."""
    start, depth, in_class = 0, 0, False
    for token in _TOKEN.finditer(text):
        first, last = token[0][0], token[0][-1]
        if in_class:
            in_class = first == "\\" or last != "]"
        elif first == "[":
            in_class = True
        elif first == "," and depth <= 0:
            yield from filter(None, [text[start : token.start()].strip()])
            start = token.end()
        else:
            depth += (first == "(") - (first == ")")
    yield from filter(None, [text[start:].strip()])


def section(content: Any, into: type[Config], where: str) -> Config:
    """Plain data as a configuration without its collections. Raises BadWatch."""
    own: dict[str, Any] = {}
    modes: dict[Mode, dict[str, Any]] = {}
    for key, value in convert(content, dict[str, Any], where).items():
        if not known_key(key, into):
            raise BadWatch(f"{where}: unknown key {short(key)}: known are {_known_keys(into)}")
        mode, dot, step_key = key.partition(".")
        if dot:
            modes.setdefault(_MODES[mode], {})[step_key] = _as_list(step_key, value)
        elif key != "collections":
            own[key] = _as_list(key, value)
    config = convert(own, into, where)
    try:
        reductions(config.reductions or ())
    except BadWatch as error:
        raise BadWatch(f"{where}.reductions: {error}") from error
    try:
        quantiles(getattr(config, "quantiles", None) or ())
    except BadWatch as error:
        raise BadWatch(f"{where}.quantiles: {error}") from error
    steps = {
        mode: convert(found, SaveConfig, f"{where}.{mode.name.lower()}")
        for mode, found in modes.items()
    }
    modes_set = {mode: config for mode, config in steps.items() if config != SaveConfig()}
    return dataclasses.replace(config, modes=modes_set)


def _as_list(key: str, value: Any) -> Any:
    """``save_steps`` may be a list with commas, or one number."""
    if key != "save_steps":
        return value
    if isinstance(value, str):
        return [step.strip() for step in value.split(",") if step.strip()]
    return [value] if isinstance(value, int) else value


def convert(content: Any, into: type[_Any], where: str) -> _Any:
    try:
        return msgspec.convert(content, into, strict=False)
    except msgspec.ValidationError as error:
        raise BadWatch(message(error, where)) from error


def _names(into: type[Any]) -> list[str]:
    return sorted(field.name for field in dataclasses.fields(into) if field.name != "modes")


def _known_keys(into: type[Any]) -> str:
    modes = ", ".join(f"{mode}." for mode in _MODES)
    return f"{', '.join(_names(into))}; and {', '.join(_STEP_KEYS)} after one of {modes}"

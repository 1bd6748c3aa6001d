"""Reads the parameters of a rule: types, bounds, and values from configurations."""

from __future__ import annotations

import dataclasses
import math
import re
import types
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import msgspec
from msgspec import Meta

from tocsin.words import types_in_words

_ITEM = re.compile(r"([a-z_]+?)(?:_(\d{1,4}))?")
_OTHER_BOUNDS = ("multiple_of", "pattern", "min_length", "max_length")


class BadRule(ValueError):
    """A rule's name or parameters are wrong; the message says what, and how to fix it."""


class RuleParameter(NamedTuple):
    """A parameter's type without its bounds, and the bounds of its number or numbers."""

    type: Any
    bounds: Meta | None

    @property
    def is_list(self) -> bool:
        return typing.get_origin(self.type) is tuple

    @property
    def is_optional(self) -> bool:
        return type(None) in typing.get_args(self.type)

    @property
    def nothing(self) -> Any:
        """The value of a parameter that names no tensor."""
        return () if self.is_list else None


@cache
def parameters_of(rule: type) -> Mapping[str, RuleParameter]:
    """Return the parameters of a rule's class, by name.

    ``Annotated[float, Meta(gt=0)]`` bounds a number. A bounded number is finite, unless its
    ``Meta`` says ``extra={"infinite": True}``. Raises NameError for a type that is not known at
    run time, and TypeError if ``Meta`` has other fields than the four bounds.
    """
    hints = typing.get_type_hints(rule, include_extras=True)
    found = {field.name: _parameter(hints[field.name]) for field in dataclasses.fields(rule)}
    for name, parameter in found.items():
        if any(getattr(parameter.bounds, other, None) is not None for other in _OTHER_BOUNDS):
            raise TypeError(f"parameter {name}: Meta takes gt, ge, lt and le here, nothing else")
    return found


def check(rule: object) -> None:
    """Raises BadRule for the first parameter that is out of its bounds."""
    kind: Any = type(rule)
    try:
        known = parameters_of(kind)
    except NameError:  # register() reports it
        return
    for name, parameter in known.items():
        value = getattr(rule, name)
        if parameter.bounds is None or (value is None and parameter.is_optional):
            continue
        for number in value if parameter.is_list else (value,):
            if must := _missed(number, parameter.bounds):
                raise BadRule(f"{kind.__name__}: {name} is {number}, but must be {must}")


def limits(bounds: Meta | None) -> str:
    """Return bounds in words: ``above 0``, ``from 0 to 100``. Empty without bounds."""
    if bounds is None:
        return ""
    if bounds.ge is not None and bounds.le is not None:
        return f"from {bounds.ge:g} to {bounds.le:g}"
    words = {"above": bounds.gt, "at least": bounds.ge, "below": bounds.lt, "at most": bounds.le}
    known = [f"{word} {bound:g}" for word, bound in words.items() if bound is not None]
    return " and ".join(known)


def gathered(given: Mapping[str, Any], known: Mapping[str, RuleParameter]) -> dict[str, Any]:
    """Join the items of lists, which Amazon's SDK sends one by one, in the order of their numbers:
    ``other_trial_0``, ``other_trial_1`` … become ``other_trials``.
    """
    items: dict[str, dict[int, Any]] = {}
    rest = {}
    for key, value in given.items():
        item = _ITEM.fullmatch(key)
        whole = f"{item[1]}s" if item and key not in known else ""
        if item and whole in known and known[whole].is_list:
            items.setdefault(whole, {})[int(item[2] or 0)] = value
        else:
            rest[key] = value
    return rest | {key: [each[at] for at in sorted(each)] for key, each in items.items()}


def converted(rule: str, key: str, value: Any, to: RuleParameter) -> Any:
    """Convert a value from JSON, or from a string, to the type of a parameter."""
    if to.is_list and isinstance(value, str):
        if value.strip().lower() == "none":
            return ()
        if float in typing.get_args(to.type):  # a tuple as Python prints it
            value = value.strip().strip("()[]")
        value = [part.strip() for part in value.split(",") if part.strip()]
    if isinstance(value, str) and value.strip().lower() in ("none", "") and to.is_optional:
        return None
    try:
        return msgspec.convert(value, to.type, strict=False)
    except msgspec.ValidationError as error:
        text = types_in_words(str(error))
        raise BadRule(f"{rule}: parameter {key}: {text[:1].lower()}{text[1:]}") from error


def _parameter(hint: Any) -> RuleParameter:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        metas = [each for each in arguments[1:] if isinstance(each, Meta)]
        return RuleParameter(arguments[0], metas[0] if metas else None)
    parts = [_parameter(each) for each in arguments]
    metas = [part.bounds for part in parts if part.bounds is not None]
    if not metas:
        return RuleParameter(hint, None)
    if origin is types.UnionType:  # cannot be subscripted
        origin = typing.Union
    bare: Any = tuple(part.type for part in parts)
    return RuleParameter(origin[bare], metas[0])


def _missed(number: Any, bounds: Meta) -> str:
    """Return the bounds in words if a number is outside, else an empty text. NaN is outside."""
    try:
        inside = (
            (bounds.gt is None or number > bounds.gt)
            and (bounds.ge is None or number >= bounds.ge)
            and (bounds.lt is None or number < bounds.lt)
            and (bounds.le is None or number <= bounds.le)
        )
        finite = isinstance(number, int) or math.isfinite(number)
    except TypeError:  # not a number
        return limits(bounds)
    if not inside:
        return limits(bounds)
    may_be_infinite = bounds.extra is not None and bounds.extra.get("infinite")
    return "" if finite or may_be_infinite else f"finite and {limits(bounds)}"

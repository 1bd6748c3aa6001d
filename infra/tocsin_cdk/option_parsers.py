"""Parsers of the values of options: each takes an option's key and value, or raises OptionError."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from tocsin.parsing import email_fault, list_items, phone_fault, stop_limit
from tocsin.watch import MOST_PRICE

# ASCII, because a policy of IAM can name no other key.
_PREFIX = r"[A-Za-z0-9_!.'()=-]+(/[A-Za-z0-9_!.'()=-]+)*"
# Without = and comma, which IAM accepts: they stand between roles and prefixes.
_ROLE_ARN = r"arn:aws[\w-]*:iam::(\d{12}):role/[\w+.@/-]+"

Parser = Callable[[str, Any], Any]

_MOST_PRICES = 50  # the environment of a function has at most 4 KiB


class OptionError(ValueError):
    """An option is not valid; the message says which, and what is valid."""


def _wrong(key: str, value: object, valid: str) -> NoReturn:
    _refuse(key, f"is {value!r}, but must be {valid}")


def _refuse(key: str, fault: str) -> NoReturn:
    raise OptionError(f'option {key} {fault} (-c {key}=… or "context" in cdk.json)')


def matching(pattern: str, valid: str) -> Parser:
    def parse(key: str, value: Any) -> str:
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            _wrong(key, value, valid)
        return value

    return parse


def each(fault: Callable[[str], str | None], example: str) -> Parser:
    """Return a parser for a list of texts; ``fault`` checks each."""

    def parse(key: str, value: Any) -> tuple[str, ...]:
        items = list_items(value)
        if items is None:
            _wrong(key, value, f"a list of texts like {example}")
        for item in items:
            if not isinstance(item, str):
                _refuse(key, f"has the item {item!r}, but must be a list of texts like {example}")
            if why := fault(item):
                _refuse(key, f"has a wrong item: {why}")
        return tuple(dict.fromkeys(items))

    return parse


def member_roles(key: str, value: Any) -> Mapping[str, tuple[str, ...]]:
    """By role (ARN) the prefixes of its account, each with a slash at its end; unless one is given,
    the account's number.
    """
    example = "arn:aws:iam::111122223333:role/TocsinMember=speech"
    items = [*value.items()] if isinstance(value, Mapping) else list_items(value)
    if items is None:
        _wrong(key, value, f"a list of texts like {example}, or an object of roles and prefixes")
    found: dict[str, list[str]] = {}
    for item in items:
        role, given = item if isinstance(item, tuple) else str(item).partition("=")[::2]
        if not (arn := re.fullmatch(_ROLE_ARN, str(role))):
            _refuse(key, f"has a wrong item: {role!r} is not the ARN of a role without = and comma")
        given = given or arn[1]
        prefixes = given if isinstance(given, list) else [given]
        found.setdefault(role, []).extend(prefix(key, each) for each in prefixes)
    _refuse_shared(key, found)
    return {role: tuple(dict.fromkeys(prefixes)) for role, prefixes in found.items()}


def _refuse_shared(key: str, found: Mapping[str, Sequence[str]]) -> None:
    """Refuse a prefix that is inside of another member's, or empty: then all would be."""
    pairs = [(role, each) for role, prefixes in found.items() for each in prefixes]
    for role, inner in pairs:
        for other, outer in pairs:
            if role != other and inner.startswith(outer):
                _refuse(key, f"gives {inner!r} to {role}, and {outer!r} to {other}: they overlap")
            if role != other and role.split(":")[4] == other.split(":")[4]:
                _refuse(key, f"has two roles of one account, {role} and {other}: name one")
        if not inner:
            _refuse(key, f"gives the whole bucket to {role}: name a prefix")


def role_fault(role: str) -> str | None:
    if re.fullmatch(_ROLE_ARN, role):
        return None
    return f"{role!r} is not the ARN of a role (write it like arn:aws:iam::111122223333:role/name)"


def allowed_fault(recipient: str) -> str | None:
    if "@" not in recipient:
        return phone_fault(recipient)
    if not recipient.startswith("*@"):
        return email_fault(recipient)
    if email_fault(f"anybody{recipient[1:]}"):
        return f"{recipient!r} does not name a domain (write it like *@example.com)"
    return None


def prefix(key: str, value: Any) -> str:
    text = value.strip("/") if isinstance(value, str) else value
    valid = "a path like team/runs, of ASCII letters, digits and _!.'()=- without empty parts"
    return f"{matching(_PREFIX, valid)(key, text)}/" if text != "" else ""


def file(key: str, value: Any) -> Path:
    path = Path.cwd() / value if isinstance(value, str) else Path.cwd()
    if not path.is_file():
        _wrong(key, value, f"a file that exists (relative paths start at {Path.cwd()})")
    return path


def flag(key: str, value: Any) -> bool:
    flags = {"true": True, "false": False}
    chosen = value if isinstance(value, bool) else flags.get(str(value).lower())
    return chosen if chosen is not None else _wrong(key, value, "true or false")


def one_of(numbers: tuple[int, ...], unit: str) -> Parser:
    def parse(key: str, value: Any) -> int:
        number = _number(value)
        return number if number in numbers else _wrong(key, value, f"one of {numbers} {unit}")

    return parse


def cap(key: str, value: Any) -> int:
    number = _number(value)
    return number if 0 <= number <= 100_000 else _wrong(key, value, "a number from 0 to 100000")


def _number(value: Any) -> int:
    """A number in JSON, or its digits as text; -1 for anything else."""
    plain = isinstance(value, int | str) and re.fullmatch("[0-9]{1,9}", str(value))
    return int(value) if plain else -1


def _pairs(key: str, value: Any, example: str) -> dict[str, Any]:
    """``a=1,b=2``, or a JSON object of the same."""
    if isinstance(value, Mapping):
        return {str(name): each for name, each in value.items()}
    pairs = [str(item).partition("=") for item in list_items(value) or ("",)]
    if not all(name and sign for name, sign, _ in pairs):
        _wrong(key, value, f"a list like {example}")
    return {name: text for name, _, text in pairs}


def by_function(
    defaults: Mapping[str, int], least: Mapping[str, int], most: int, unit: str
) -> Parser:
    """Return a parser for a number for some functions; the others keep their defaults."""
    example = ",".join(f"{name}={number}" for name, number in defaults.items())

    def parse(key: str, value: Any) -> Mapping[str, int]:
        numbers = {name: _number(each) for name, each in _pairs(key, value, example).items()}
        for name, number in numbers.items():
            if name not in defaults:
                _refuse(key, f"names {name!r}, but its functions are {', '.join(defaults)}")
            if not least[name] <= number <= most:
                _refuse(key, f"of {name} must be from {least[name]} to {most} {unit}")
        return {**defaults, **numbers}

    return parse


def prices(key: str, value: Any) -> Mapping[str, float]:
    """US dollars per hour, by type of instance."""
    found = {}
    for kind, given in _pairs(key, value, "ml.g5.xlarge=1.41,ml.p4d.24xlarge=37.69").items():
        try:
            found[kind] = float(given)
        except (TypeError, ValueError):
            found[kind] = 0.0
        if not re.fullmatch(r"ml\.[a-z0-9.-]{1,60}", kind) or not 0 < found[kind] <= MOST_PRICE:
            _refuse(
                key,
                f"has {kind!r} at {given!r}, but must have types of instances at US dollars per "
                "hour like ml.g5.xlarge=1.41",
            )
    if len(found) > _MOST_PRICES:
        _refuse(key, f"has {len(found)} types of instances, of at most {_MOST_PRICES}")
    return found


def tags(key: str, value: Any) -> Mapping[str, str]:
    found = _pairs(key, value, "team=vision,cost-centre=42")
    for name, text in found.items():
        fits = isinstance(text, str) and len(name) <= 128 and len(text) <= 256
        if not fits or name.lower().startswith("aws:"):
            _refuse(
                key,
                f"has the tag {name!r}, but a name must have at most 128 characters and not begin "
                "with aws:, a value is text of at most 256",
            )
    return found


def stop_guard(key: str, value: Any) -> str:
    try:
        stop_limit(value)
    except ValueError as error:
        _refuse(key, f"is wrong: {error}")
    return str(value)

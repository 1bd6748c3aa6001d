"""Numbers in cells, as people and tools write them: ``87.5%``, ``1,234.5``, ``0,12``, ``1/200``."""

from __future__ import annotations

import math
import re

_TEXTS = {
    "nan": math.nan,
    "inf": math.inf,
    "infinity": math.inf,
    "-inf": -math.inf,
    "-infinity": -math.inf,
}
_EMPTY = {"", "-", "--", "none", "null", "na", "n/a", "<na>", "nil"}
_CLOCK = re.compile(r"(?:(\d+) days?,? )?(?:(\d+):)?(\d+):(\d\d(?:\.\d+)?)")
_OF_TOTAL = re.compile(r"(\d+(?:\.\d+)?)\s*/\s*\d+")
_WRAPPED = re.compile(r"(?:tf\.Tensor|tensor|array|np\.float(?:32|64)|\[)\(?\[?(.+?)\]?[,)\]].*")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?")
_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?")


def number(value: object, *, comma: bool = False) -> float | None:
    """Return a JSON value or the text of a cell as a number, NaN and infinities too; else None.

    comma: whether a comma is the decimal point. ``87.5%`` is 87.5, ``1/200`` is 1, ``00:12`` is
    12 seconds, and the text of an array of one number is that number.
    """
    if isinstance(value, str):
        return _of_text(value.strip(), comma)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def is_empty(value: object) -> bool:
    """Return whether a value stands for a missing one."""
    return value is None or (isinstance(value, str) and value.strip().lower() in _EMPTY)


def has_decimal_comma(cell: str) -> bool | None:
    """Return whether a comma in a cell is the decimal point; None where it shows neither."""
    text = cell.strip().rstrip("%").rstrip()
    if "," not in text:
        return None
    if _THOUSANDS.fullmatch(text):
        return None if text.count(",") == 1 and "." not in text else False
    return True if _DECIMAL_COMMA.fullmatch(text) else None


def whole(value: object) -> int | None:
    """Return a step: a whole number, also written as ``3.0``, ``3/200`` or as text; else None."""
    found = number(value)
    return None if found is None or not found.is_integer() else int(found)


def _of_text(text: str, comma: bool) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return _as_written(text, comma)
    # float() also reads underscores, and words and overflow as infinity.
    if "_" in text:
        return None
    return found if math.isfinite(found) else _TEXTS.get(text.lower().lstrip("+"), found)


def _as_written(text: str, comma: bool) -> float | None:
    if not text or not any(character.isdigit() for character in text):
        return None
    if text.endswith("%"):
        return _of_text(text[:-1].rstrip(), comma)
    if comma and _DECIMAL_COMMA.fullmatch(text):
        return float(text.replace(",", "."))
    if _THOUSANDS.fullmatch(text):
        return float(text.replace(",", ""))
    if found := _OF_TOTAL.fullmatch(text):
        return float(found[1])
    if found := _CLOCK.fullmatch(text):
        days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
        return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    found = _WRAPPED.fullmatch(text)
    return _of_text(found[1].strip(), comma) if found and len(found[1]) < len(text) else None

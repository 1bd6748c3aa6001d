"""Makes text from outside safe to show: no control characters, a limited length.

Imports no other module of Tocsin.
"""

from __future__ import annotations

import re
import unicodedata

_TYPES = {
    "array": "a list",
    "object": "a mapping",
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "null": "nothing",
}
_FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")  # the last four are the full-width forms
_TYPE = re.compile(r"([Ee]xpected|got) `([a-z]+(?: \| [a-z]+)*)`")


def clean(text: str, limit: int = 1000) -> str:
    """``text`` as one line of at most ``limit`` characters, without control characters."""
    visible = ("  " if unicodedata.category(char)[0] == "C" else char for char in text)
    return cut(" ".join("".join(visible).split()), limit)


def ascii_only(text: str) -> str:
    """``text`` in printable ASCII: accents are dropped, other letters become ``?``."""
    plain = unicodedata.normalize("NFKD", clean(text, len(text)))
    letters = "".join(char for char in plain if not unicodedata.combining(char))
    return letters.encode("ascii", "replace").decode("ascii")


def label(text: str) -> str:
    """``text`` as a value of a CloudWatch dimension: ASCII, not blank, no colon first."""
    return cut(ascii_only(text).lstrip(" :") or "?", 1024)


def cut(text: str, limit: int) -> str:
    """``text``, or its beginning and two dots, in at most ``limit`` characters."""
    return text if len(text) <= limit else text[: max(limit - 2, 0)] + ".."[:limit]


def spreadsheet_text(text: str) -> str:
    """``text`` as a cell that no spreadsheet takes for a formula: an apostrophe before those that
    begin like one.
    """
    return f"'{text}" if text.startswith(_FORMULA) else text


def number(value: bool | int | float | str | None) -> str:
    """Return a number of the evidence for people: ``3.1e-09``, ``128``, ``NaN``."""
    return f"{value:.4g}" if isinstance(value, float) else clean(str(value), 80)


def types_in_words(text: str) -> str:
    """msgspec's message without names of types: ``expected `array | null` `` is a list."""
    return _TYPE.sub(_in_words, text)


def _in_words(found: re.Match[str]) -> str:
    types = found[2].split(" | ")
    types = [each for each in types if each != "null"] or types
    if "float" in types and "int" in types:
        types.remove("int")
    return f"{found[1]} {' or '.join(_TYPES.get(each, each) for each in types)}"

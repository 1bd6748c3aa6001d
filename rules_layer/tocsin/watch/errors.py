"""Errors of a configuration, with their place in the file."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from reprlib import repr as short  # a text of a file may be long
from typing import NamedTuple

from tocsin.words import types_in_words

Path = tuple[str | int, ...]
"""A place in a file: the keys and numbers that lead there."""


class BadWatch(ValueError):
    """A watch file is wrong; the message is one line that says where and how to fix it."""


class Fault(NamedTuple):
    """An error in a part of a watch file.

    A path may be longer than the file is deep: a rule given by its name alone has no key ``rule``.
    In Amazon's form ``("rules", 0, …)`` is the first of the ``DebugRuleConfigurations``.
    """

    path: Path
    text: str

    def __str__(self) -> str:
        """``rules[0].actions[1]: unknown action …``"""
        return f"{self.place}: {self.text}" if self.path else self.text

    @property
    def place(self) -> str:
        """The path as text.

        >>> Fault(("capture", "collections", "any name", "include_regex"), "…").place
        "capture.collections['any name'].include_regex"
        """
        parts = (
            f".{part}"
            if isinstance(part, str) and part.isidentifier() and len(part) < 80
            else f"[{short(part)}]"
            for part in self.path
        )
        return "".join(parts).removeprefix(".")

    @property
    def mild(self) -> bool:
        """Return whether it concerns only notification: then the rules can be evaluated."""
        sections = (("notify",), ("silences",), ("relaunch",))
        return self.path[:1] in sections or self.path[2:3] == ("inhibits",)


def message(error: BaseException, where: str = "") -> str:
    """msgspec's message in words, with the place as in the file: ``expected … - at `rules[0]```.

    ``where`` is the place of the converted part; empty for the whole file.
    """
    text = types_in_words(" ".join(str(error).split()))
    if where:
        text = text.replace("`$", f"`{where}") if "`$" in text else f"{text} - at `{where}`"
    text = text.replace("`$.", "`").replace("`$`", "the top level")
    if text[1:2].islower():  # but not JSON and YAML
        text = text[0].lower() + text[1:]
    return text[:500]


def instead_of(name: str, known: Iterable[str]) -> str:
    """``did you mean for_steps?``, or the names that there are."""
    names = sorted(known)
    near = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.7)
    return f"did you mean {near[0]}?" if near else f"known are {', '.join(names)}"

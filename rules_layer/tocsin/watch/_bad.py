"""How a configuration that is wrong is told."""

from __future__ import annotations

from reprlib import repr as short  # what a file says may be long
from typing import NamedTuple

Path = tuple[str | int, ...]
"""A place in a file: the keys and numbers that lead there."""


class BadWatch(ValueError):
    """A watch file is wrong; the message is one line that says where and how to mend it."""


class Fault(NamedTuple):
    """What is wrong with a part of a watch file, and its place there.

    A path may go deeper than the file (a rule given by its name alone has no key ``rule``): the
    place is then the deepest part of it that is there. In Amazon's form ``("rules", 0, …)`` is
    the first of the ``DebugRuleConfigurations``.
    """

    path: Path
    text: str

    def __str__(self) -> str:
        """``rules[0].actions[1]: unknown action …``"""
        return f"{placed(self.path)}: {self.text}" if self.path else self.text

    @property
    def mild(self) -> bool:
        """Whether rules can be watched all the same: it is about how alerts are told."""
        return self.path[:1] in (("notify",), ("silences",)) or self.path[2:3] == ("inhibits",)


def placed(path: Path) -> str:
    """A path as it is written: ``rules[0].actions[1]``.

    >>> placed(("capture", "collections", "any name", "include_regex"))
    "capture.collections['any name'].include_regex"
    """
    parts = (
        f".{part}"
        if isinstance(part, str) and part.isidentifier() and len(part) < 80
        else f"[{short(part)}]"
        for part in path
    )
    return "".join(parts).removeprefix(".")


def plain(error: BaseException, where: str = "") -> str:
    """msgspec's message with the place in our words: ``expected … - at `rules[0]```.

    ``where`` is the place of what was converted, if that was not the whole file.
    """
    text = " ".join(str(error).split())
    if where:
        text = text.replace("`$", f"`{where}") if "`$" in text else f"{text} - at `{where}`"
    text = text.replace("`$.", "`").replace("`$`", "the top level")
    if text[1:2].islower():  # not JSON, YAML
        text = text[0].lower() + text[1:]
    return text[:500]

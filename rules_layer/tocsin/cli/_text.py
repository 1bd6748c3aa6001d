"""Text of a run, which is not trusted: no control characters, no markup on the terminal."""

from __future__ import annotations

from typing import Any

from rich.text import Text


def printable(text: str) -> str:
    """``text`` with what a terminal would not print, or would obey, written as an escape."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def plain(value: Any, style: str = "") -> Text:
    """A value as text that holds neither markup nor control characters."""
    return Text(printable(str(value)), style=style)


def one_line(text: str) -> str:
    """``text`` on one line."""
    return printable(" ".join(text.split()))


def span(steps: list[int]) -> str:
    """``0 … 400 (41)`` for many steps, the numbers themselves for a few, in order."""
    if len(steps) <= 4:
        return ", ".join(map(str, steps))
    return f"{steps[0]} … {steps[-1]} ({len(steps)})"

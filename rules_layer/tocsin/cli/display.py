"""Text and tables on the terminal, without the control characters and markup of a run's text."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text


def printable(text: str) -> str:
    """``text`` with control characters, and others that a terminal cannot print, as escapes."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def styled(value: Any, style: str = "") -> Text:
    """Return a value as text in one style, without markup and control characters."""
    return Text(printable(str(value)), style=style)


def one_line(text: str) -> str:
    """``text`` on one line."""
    return printable(" ".join(text.split()))


def span(steps: list[int]) -> str:
    """``0 … 400 (41)`` for many steps, the numbers themselves for a few, in order."""
    if len(steps) <= 4:
        return ", ".join(map(str, steps))
    return f"{steps[0]} … {steps[-1]} ({len(steps)})"


def utc(time: datetime) -> str:
    """``time`` in ISO 8601, to the second: ``2026-12-01T08:00:00Z``."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def readable(time: str) -> str:
    """Return a time of ``utc`` for people: ``2026-12-01 08:00:00``."""
    return time.removesuffix("Z").replace("T", " ")


def table() -> Table:
    """Return a table without a frame: a heading, a line under it, rows."""
    return Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1),
        collapse_padding=True,
        header_style="dim",
    )


def print_facts(values: Mapping[str, str], console: Console) -> None:
    """Print labels and values, a line each. A path stays on one line, so that it can be copied."""
    width = max(map(len, values), default=0) + 2
    for label, value in values.items():
        line = Text.assemble((f"{label:{width}}", "dim"), styled(value))
        console.print(line, soft_wrap=True)


def age(seconds: float) -> str:
    """``40 s``, ``12 min``, ``3 h``, ``2 days``."""
    for unit, size in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= (2 * size if unit == "days" else size):
            return f"{seconds / size:.0f} {unit}"
    return f"{max(seconds, 0.0):.0f} s"

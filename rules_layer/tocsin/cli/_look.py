"""How tables look, everywhere alike."""

from __future__ import annotations

from collections.abc import Mapping

from rich import box
from rich.table import Table

from tocsin.cli._text import plain


def table() -> Table:
    """A table without a frame: a heading, a line under it, rows."""
    return Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1),
        collapse_padding=True,
        header_style="dim",
    )


def facts(values: Mapping[str, str]) -> Table:
    """Labels and values, a line each."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for label, value in values.items():
        grid.add_row(plain(label), plain(value))
    return grid

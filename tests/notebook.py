"""Cells in one process, as IPython runs them: whatever a cell raises, the next one runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any


class Notebook:
    """Its cells see the run's folder as ``run``."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.names: dict[str, Any] = {"run": run}

    def cell(self, source: str) -> BaseException | None:
        """Run a cell; what it raised, if anything."""
        try:
            exec(source, self.names)  # noqa: S102 - this is what a notebook does
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - whatever it raises
            return error
        return None

    def cells(self, *sources: str) -> None:
        """Run cells that raise nothing."""
        for source in sources:
            assert self.cell(source) is None

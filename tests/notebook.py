"""Cells in one process, as IPython runs them: whatever a cell raises, the next one runs."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any


class Notebook:
    """Its cells see the run's folder as ``run``."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.names: dict[str, Any] = {"run": run}

    def cell(self, source: str) -> BaseException | None:
        """Run a cell; what it raised, if anything. ``_`` is the value of its last line."""
        try:
            tree = ast.parse(source)
            last = tree.body[-1] if tree.body else None
            if isinstance(last, ast.Expr):
                tree.body.pop()
            exec(compile(tree, "<cell>", "exec"), self.names)  # noqa: S102 - so does a notebook
            if isinstance(last, ast.Expr):
                value = compile(ast.Expression(last.value), "<cell>", "eval")
                self.names["_"] = eval(value, self.names)  # noqa: S307 - a cell's, as above
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - whatever it raises
            return error
        return None

    def cells(self, *sources: str) -> None:
        """Run cells that raise nothing."""
        for source in sources:
            assert self.cell(source) is None


def cells_of(notebook: Path) -> list[str]:
    """The code cells of an ``.ipynb`` file."""
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]

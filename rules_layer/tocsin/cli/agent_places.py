"""The runs that an agent may ask about, and those of a local folder. Knows no AWS."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tocsin.cli.errors import CommandError
from tocsin.cli.output import Document
from tocsin.cli.place import runs_in
from tocsin.cli.run_list import runs_below
from tocsin.evaluation import check, document
from tocsin.tensors import open_storage
from tocsin.trial import Trial, create_trial

Silencer = Callable[[str, str, str, str], Document]
"""Adds a silence for a job, a rule, a duration and a reason."""


class Place(Protocol):
    """Runs by name. Every method raises CommandError for a name that ``runs`` does not list."""

    def runs(self) -> Document:
        """Return the runs as ``tocsin status --json`` lists them; ``run`` is the name of each."""

    def verdict(self, run: str) -> Document:
        """Return the verdict on a run as ``tocsin check --json`` has it."""

    def trial(self, run: str) -> Trial:
        """Open a run for reading."""

    def report(self, run: str) -> Document:
        """Return where the report of a run is: a ``link``, or the ``command`` that writes it."""


@dataclass(frozen=True)
class Folder:
    """The runs in a local folder and below it. Nothing outside it can be named."""

    path: Path

    def runs(self) -> Document:
        names = {str(path): name for name, path in self._known().items()}
        rows = runs_below(self.path)["runs"]
        return {"runs": [{**row, "run": names[row["run"]]} for row in rows if row["run"] in names]}

    def verdict(self, run: str) -> Document:
        checkpoint, _ = check(open_storage(self._find(run)))
        return {**document(checkpoint), "run": run}

    def trial(self, run: str) -> Trial:
        return create_trial(str(self._find(run)))

    def report(self, run: str) -> Document:
        path = self._find(run)
        return {"link": None, "command": f"tocsin report {path} -o report.html"}

    def _known(self) -> Mapping[str, Path]:
        root = self.path.resolve()
        return {str(path.relative_to(root)): path for path in runs_in(root)}

    def _find(self, run: str) -> Path:
        known = self._known()
        if run not in known:
            raise CommandError(f"no run {run!r} in {self.path}: list_runs has the names")
        return known[run]

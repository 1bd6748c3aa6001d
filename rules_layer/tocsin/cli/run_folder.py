"""The runs in a local folder, looked at again and again."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tocsin.cli.output import Advance
from tocsin.cli.place import runs_in
from tocsin.cli.run_view import RunView, RunWatch
from tocsin.tensors import open_storage
from tocsin.watch import Watch


@dataclass
class RunFolder:
    """Each run is watched under its path in the folder. A look finds runs that are new."""

    folder: Path
    watch: Watch | None = None
    now: Callable[[], float] = time.time
    runs: dict[str, RunWatch] = field(default_factory=dict)

    def look(self, advance: Advance = lambda done, total: None) -> Mapping[str, RunView]:
        """Evaluate what is new in each run, and drop deleted runs."""
        paths = {path.relative_to(self.folder).as_posix(): path for path in runs_in(self.folder)}
        for name in self.runs.keys() - paths:
            del self.runs[name]
        views = {}
        for done, (name, path) in enumerate(paths.items(), 1):
            if name not in self.runs:
                self.runs[name] = RunWatch(open_storage(path), self.watch, self.now)
            views[name] = self.runs[name].look()
            advance(done, len(paths))
        return views

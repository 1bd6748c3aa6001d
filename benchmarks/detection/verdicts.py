"""The verdicts on kept runs, so that a change of a rule shows run by run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from benchmarks.detection.judge import Judged

_FILE = "verdicts.json"
NOTHING = "nothing"


def verdicts(judged: Iterable[Judged]) -> dict[str, str]:
    """Return what leads on each run that is not undecided: a rule, a contract, or NOTHING."""
    return {
        f"{one.truth} {one.run.case} {one.run.seed}": one.lead or NOTHING
        for one in judged
        if one.truth != "undecided"
    }


def write(folder: Path, found: Mapping[str, str]) -> None:
    (folder / _FILE).write_bytes(msgspec.json.encode(found))


def read(folder: Path) -> dict[str, str]:
    """Return the verdicts from when the runs were kept; none if they were never judged."""
    path = folder / _FILE
    return msgspec.json.decode(path.read_bytes(), type=dict[str, str]) if path.is_file() else {}


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return a line for each run whose verdict is another one."""
    return [
        f"* {run}: {before[run]} → {verdict}"
        for run, verdict in after.items()
        if before.get(run, verdict) != verdict
    ]

"""A part of the cases."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.detection.case import Case


def chosen(
    cases: Iterable[Case], only: str | None = None, names: Iterable[str] | None = None
) -> list[Case]:
    """Return those whose ``group/name`` holds a text, and whose folder is among some names.

    With a case comes the one that it is compared with.
    """
    every = list(cases)
    folders = None if names is None else {*names}
    wanted = {
        case.folder
        for case in every
        if (not only or only in f"{case.group}/{case.name}")
        and (folders is None or case.folder in folders)
    }
    groups = {case.group for case in every if case.folder in wanted}
    return [c for c in every if c.folder in wanted or (c.group in groups and c.is_reference)]


def listed(file: Path | None, cases: Iterable[Case]) -> Sequence[str] | None:
    """Return the names in a file, one a line. Raises ValueError for one that no case has."""
    if file is None:
        return None
    names = [name for line in file.read_text("utf-8").splitlines() if (name := line.strip())]
    known = {case.folder for case in cases}
    if unknown := [name for name in names if name not in known]:
        raise ValueError(
            f"{file}: no case is named {unknown[0]}: use its folder, as in wine-plain/plain"
        )
    return names

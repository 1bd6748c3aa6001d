"""A part of the cases."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.detection.case import Case


def chosen(
    cases: Iterable[Case], only: str | None = None, names: Iterable[str] | None = None
) -> list[Case]:
    """Those whose ``family/name`` holds a text, and whose folder is among some names.

    With a case comes the one that it is compared with.
    """
    every = list(cases)
    if only:
        every = [c for c in every if only in f"{c.family}/{c.name}" or _is_reference(c, only)]
    if names is not None:
        wanted = {*names}
        references = {(c.family, c.reference) for c in every if c.folder in wanted}
        every = [c for c in every if c.folder in wanted or (c.family, c.name) in references]
    return every


def listed(file: Path | None, cases: Iterable[Case]) -> Sequence[str] | None:
    """The names in a file, one a line. Raises ValueError for one that no case has."""
    if file is None:
        return None
    names = [name for line in file.read_text("utf-8").splitlines() if (name := line.strip())]
    known = {case.folder for case in cases}
    if unknown := [name for name in names if name not in known]:
        raise ValueError(f"{file}: no case is named {unknown[0]}: use its folder, as in gan/plain")
    return names


def _is_reference(case: Case, only: str) -> bool:
    return case.name == case.reference and only.startswith(case.family)

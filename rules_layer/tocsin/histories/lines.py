"""Lines of a text file, each of a limited length."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tocsin.histories.scalar import BadHistory, check_size

MOST_CHARACTERS = 1 << 20


def lines_of(path: Path) -> Iterator[str]:
    """The lines with their ends. Raises BadHistory for a long line, and for a file of bytes."""
    check_size(path)
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        at = 0
        while line := file.readline(MOST_CHARACTERS + 1):
            at += 1
            if len(line) > MOST_CHARACTERS:
                raise BadHistory(
                    f"{path}, line {at}: longer than {MOST_CHARACTERS:,} characters; "
                    "export the scalars only"
                )
            if "\0" in line:
                raise BadHistory(f"{path}, line {at}: no text in UTF-8; export it as UTF-8")
            yield line

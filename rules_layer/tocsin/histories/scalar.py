"""The values that readers of histories yield, and the error that refuses a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

MOST_BYTES = 1 << 30  # of a file: it is read line by line or record by record

Note = Callable[[str], None]
"""Called with a line for people: something could not be read, the rest was."""

Row = Mapping[str, object]
"""What was recorded together: cells of a line, or values of a JSON object, by their names."""


class BadHistory(ValueError):
    """A history cannot be read; the message is one line: what, where, how to fix it."""


class Scalar(NamedTuple):
    """One number under its name.

    wall_time: in seconds since the epoch; None: not known.
    training: names the training that it belongs to, where the history does; else empty.
    borrowed: whether its row has no step, and got that of the row before.
    """

    name: str
    step: int
    value: float
    wall_time: float | None = None
    training: str = ""
    borrowed: bool = False


class Reader(Protocol):
    """Reads the history at ``path``, of one kind; each further ``read`` yields what is new.

    The scalars come in the order in which they were recorded, as far as the history shows it.
    A file that was written again is read from its start. Raises BadHistory and OSError.
    """

    @property
    def path(self) -> Path: ...

    def read(self, note: Note, *, growing: bool = False) -> Iterator[Scalar]:
        """growing: what is not whole yet, a line or a record, is left for the next time."""
        ...

    def describe(self) -> tuple[str, str, list[str]]:
        """Describe the format, the step counter and the skipped parts of the history."""
        ...


class Rows(Protocol):
    """Reads rows of names and values at ``path``; each further ``read`` yields what is new.

    form: in words, as "CSV". Raises BadHistory and OSError.
    """

    @property
    def path(self) -> Path: ...

    @property
    def form(self) -> str: ...

    def read(self, note: Note, *, growing: bool = False) -> Iterator[Row]: ...


def check_size(path: Path) -> None:
    """Raises BadHistory for a file that is not regular or too large to be read."""
    if not path.is_file():
        raise BadHistory(f"{path} is not a file")
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise BadHistory(f"{path} has {size:,} bytes, more than the {MOST_BYTES:,} allowed")

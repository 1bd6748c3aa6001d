"""Lines of a text file, each of a limited length."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tocsin.histories.scalar import BadHistory, check_size

MOST_CHARACTERS = 1 << 20
_BOM = "\ufeff"


@dataclass
class Lines:
    """The lines of a file, each once: a reading begins where the one before ended.

    number: how many lines have been read.
    """

    path: Path
    number: int = 0
    _offset: int = 0
    _first: bytes = b""

    def begins(self) -> bool:
        """Whether the next reading begins with the first line: also of a file written again."""
        if self._offset:
            with self.path.open("rb") as file:
                same = file.read(len(self._first)) == self._first
            if not same or self.path.stat().st_size < self._offset:
                self.number, self._offset = 0, 0
        return self._offset == 0

    def read(self, *, growing: bool = False) -> Iterator[str]:
        """The lines with their ends. Raises BadHistory for a long line, and for a file of bytes.

        growing: a last line without its end is left for the next reading.
        """
        check_size(self.path)
        self.begins()
        with self.path.open("rb") as file:
            file.seek(self._offset)
            while line := file.readline(MOST_CHARACTERS + 1):
                at = self.number + 1
                if len(line) > MOST_CHARACTERS:
                    raise BadHistory(
                        f"{self.path}, line {at}: longer than {MOST_CHARACTERS:,} characters; "
                        "export the scalars only"
                    )
                if b"\0" in line:
                    raise BadHistory(
                        f"{self.path}, line {at}: no text in UTF-8; export it as UTF-8"
                    )
                if growing and not line.endswith(b"\n"):
                    return
                if at == 1:
                    self._first = line
                self.number, self._offset = at, self._offset + len(line)
                text = line.decode("utf-8", "replace")
                yield text.removeprefix(_BOM) if at == 1 else text

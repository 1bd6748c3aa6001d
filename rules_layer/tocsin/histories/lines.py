"""Lines of a text file, each of a limited length."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tocsin.histories.scalar import BadHistory, check_size

MOST_CHARACTERS = 1 << 20
_BOM = "\ufeff"
_UTF_16 = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
_MOST_UTF_16 = 64 << 20  # bytes: such a file is read as a whole
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


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
        """Return whether the next reading begins with the first line, or a rewritten file."""
        if self._offset:
            with self.path.open("rb") as file:
                same = file.read(len(self._first)) == self._first
            if not same or self.path.stat().st_size < self._offset:
                self.number, self._offset = 0, 0
        return self._offset == 0

    def read(self, *, growing: bool = False) -> Iterator[str]:
        """Yield the lines with their ends. Raises BadHistory for a long line, and for a file of
        bytes.

        growing: a last line without its end is left for the next reading.
        """
        check_size(self.path)
        self.begins()
        with self.path.open("rb") as file:
            if codec := _UTF_16.get(file.read(2)):
                yield from self._decoded(codec)
                return
            file.seek(self._offset)
            while line := file.readline(MOST_CHARACTERS + 1):
                at = self.number + 1
                if len(line) > MOST_CHARACTERS:
                    raise BadHistory(
                        f"{self.path}, line {at}: longer than {MOST_CHARACTERS:,} characters; "
                        "export the scalars only"
                    )
                if b"\0" in line:
                    raise BadHistory(f"{self.path}, line {at}: not UTF-8 text; export it as UTF-8")
                if growing and not line.endswith(b"\n"):
                    return
                if at == 1:
                    self._first = line
                self.number, self._offset = at, self._offset + len(line)
                text = line.decode("utf-8", "replace")
                yield text.removeprefix(_BOM) if at == 1 else text

    def _decoded(self, codec: str) -> Iterator[str]:
        """Yield the lines of a UTF-16 file, as PowerShell redirection writes them."""
        if self.path.stat().st_size > _MOST_UTF_16:
            raise BadHistory(
                f"{self.path}: more than {_MOST_UTF_16:,} bytes in UTF-16; export it as UTF-8"
            )
        content = self.path.read_bytes()
        for line in content[self._offset or 2 :].decode(codec, "replace").splitlines(True):
            self.number += 1
            yield line
        self._offset, self._first = len(content), content[:64]


def decoded(head: bytes) -> str:
    """Return the text of the first bytes of a file."""
    if codec := _UTF_16.get(head[:2]):
        return head[2 : len(head) & ~1].decode(codec, "replace")
    return head.decode("utf-8-sig", "replace")


def on_screen(line: str) -> str:
    """Return the final text of a line that a progress bar overwrote."""
    return _COLOURS.sub("", line.rstrip("\r\n").rpartition("\r")[2])

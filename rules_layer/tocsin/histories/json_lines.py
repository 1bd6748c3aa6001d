"""JSON lines, one object for each step, and ``trainer_state.json`` of the Hugging Face Trainer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from tocsin.histories.lines import Lines
from tocsin.histories.scalar import BadHistory, Note, Scalar, check_size
from tocsin.histories.table import Row, Table

_MOST_STATE = 64 << 20


class JsonLines:
    """One object a line. NaN and Infinity may be bare words or texts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines, self._table = Lines(path), Table(path)

    def read(self, note: Note, *, growing: bool = False) -> Iterator[Scalar]:
        return self._table.scalars(self._rows(note, growing), note, growing=growing)

    def _rows(self, note: Note, growing: bool) -> Iterator[Row]:
        for line in self._lines.read(growing=growing):
            if not line.strip():
                continue
            place = f"{self.path}, line {self._lines.number}"
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                if line.endswith("\n"):
                    raise BadHistory(f"{place}: not a JSON object; remove the line") from None
                note(f"{place}: the file breaks off, and what comes before is read")
                return
            if not isinstance(row, dict):
                raise BadHistory(f"{place}: not a JSON object; each line must be one")
            yield row


class TrainerState:
    """``log_history``, the log that the Trainer saves with each checkpoint."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._table = Table(path)
        self._state: tuple[int, int] | None = None  # of the file that was read: size, time
        self._count = 0

    def read(self, note: Note, *, growing: bool = False) -> Iterator[Scalar]:
        check_size(self.path)
        found = self.path.stat()
        if self._state == (found.st_size, found.st_mtime_ns):
            return
        try:
            history = self._history(found.st_size)
        except BadHistory:
            if growing and self._state:  # it is being written
                return
            raise
        self._state = found.st_size, found.st_mtime_ns
        new = history[self._count :] if len(history) >= self._count else history
        self._count = len(history)
        rows = (row for row in new if isinstance(row, dict))
        yield from self._table.scalars(rows, note, growing=growing)

    def _history(self, size: int) -> list[object]:
        if size > _MOST_STATE:
            raise BadHistory(f"{self.path} has more than {_MOST_STATE:,} bytes, and is not read")
        try:
            document = json.loads(self.path.read_bytes())
        except (ValueError, RecursionError) as error:
            raise BadHistory(f"{self.path}: not JSON: {error}") from None
        history = document.get("log_history") if isinstance(document, dict) else None
        if not isinstance(history, list):
            raise BadHistory(
                f"{self.path} has no list log_history: name a file that the Trainer wrote"
            )
        return history

"""JSON lines, one object for each step, and ``trainer_state.json`` of the Hugging Face Trainer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from tocsin.histories.lines import lines_of
from tocsin.histories.scalar import BadHistory, Note, Scalar, check_size
from tocsin.histories.table import Row, scalars_of_rows

_MOST_STATE = 64 << 20


def read_json_lines(path: Path, note: Note) -> Iterator[Scalar]:
    """Reads one object a line. NaN and Infinity may be bare words or texts."""
    return scalars_of_rows(_rows(path, note), path, note)


def read_trainer_state(path: Path, note: Note) -> Iterator[Scalar]:
    """Reads ``log_history``, the log that the Trainer saves with each checkpoint."""
    check_size(path)
    if path.stat().st_size > _MOST_STATE:
        raise BadHistory(f"{path} has more than {_MOST_STATE:,} bytes, and is not read")
    try:
        document = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise BadHistory(f"{path}: not JSON: {error}") from None
    history = document.get("log_history") if isinstance(document, dict) else None
    if not isinstance(history, list):
        raise BadHistory(f"{path} has no list log_history: name a file that the Trainer wrote")
    return scalars_of_rows((row for row in history if isinstance(row, dict)), path, note)


def _rows(path: Path, note: Note) -> Iterator[Row]:
    for at, line in enumerate(lines_of(path), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            if line.endswith("\n"):
                raise BadHistory(f"{path}, line {at}: not a JSON object; remove the line") from None
            note(f"{path}, line {at}: the file breaks off, and what comes before is read")
            return
        if not isinstance(row, dict):
            raise BadHistory(f"{path}, line {at}: not a JSON object; each line must be one")
        yield row

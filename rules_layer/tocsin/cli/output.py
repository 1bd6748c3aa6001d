"""The output of a command: its answer on stdout, all else on stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from tocsin.cli.display import one_line
from tocsin.model import json_number

Document = dict[str, Any]
Advance = Callable[[int, int], None]
"""Called with the amount that is done, and the total."""

MOST_NOTES = 20
_ASCII = str.maketrans(
    {
        "·": "|",
        "…": "...",
        "→": "->",
        "─": "-",
        "×": "x",
        "▲": "!",
        "✕": "x",
        "■": "#",
        "●": "*",
        "✓": "+",
        "–": "-",
    }
)


def answer(document: Document, show: Callable[[Document, Console], None], *, as_json: bool) -> None:
    """Write the document to stdout: as JSON, or as ``show`` prints it for people."""
    if as_json:
        text = json.dumps(_jsonable(document), indent=2, allow_nan=False) + "\n"
    else:
        console = Console(highlight=False, emoji=False, markup=False)
        with console.capture() as captured:
            show(document, console)
        text = "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())
        text = _as_stdout_has_it(text)
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough; the exit code stays what it is
        silence_stdout()


def lines_to_stdout(lines: Iterable[str]) -> None:
    """Write lines at once, as part of an answer that comes bit by bit."""
    for line in lines:
        sys.stdout.write(_as_stdout_has_it(f"{one_line(line)}\n"))
    sys.stdout.flush()


def silence_stdout() -> None:
    """Discard remaining output, so that the interpreter exits without an error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def note(text: str) -> None:
    """Write one line to stderr."""
    sys.stderr.write(f"tocsin: {one_line(text)}\n")


def notes(lines: Iterable[str]) -> None:
    """Write a line each, at most ``MOST_NOTES`` of them."""
    every = list(lines)
    for line in every[:MOST_NOTES]:
        note(line)
    if len(every) > MOST_NOTES:
        note(f"… and {len(every) - MOST_NOTES} more")


@contextmanager
def progress(what: str) -> Iterator[Advance]:
    """Show a bar on stderr while the block runs, if stderr is a terminal; then remove it."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show a spinner while the block runs: work of unknown length."""
    if not sys.stderr.isatty():
        yield
        return
    with Console(stderr=True).status(what):
        yield


def _as_stdout_has_it(text: str) -> str:
    return text if "utf" in (sys.stdout.encoding or "utf-8").lower() else text.translate(_ASCII)


def _jsonable(value: Any) -> Any:
    """``value`` as JSON can carry it."""
    if isinstance(value, Mapping):
        return {str(key): _jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(item) for item in value]
    return json_number(value)

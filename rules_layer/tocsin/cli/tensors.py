"""``tocsin tensors``: lists the tensors of a run."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from typing import Any

from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from tocsin.cli.display import span, styled
from tocsin.cli.output import Advance, Document
from tocsin.model import Mode
from tocsin.tensors import (
    BFLOAT16,
    Entry,
    IndexFile,
    Storage,
    Unreadable,
    Value,
    base_name,
    content_bytes,
    itemsize,
    read_values,
    search,
    to_bfloat16,
)
from tocsin.trial import Trial

MOST_ROWS = 1000
"""Tensors that are printed. The document has all."""


def tensors_document(
    run: Trial,
    storage: Storage,
    *,
    digest: bool = False,
    regex: str | None = None,
    collection: str | None = None,
    advance: Advance = lambda done, total: None,
) -> Document:
    """Return the JSON of ``tocsin tensors``: tensors of all complete steps, or those selected.

    A tensor that was saved as reductions only has one row, under its own name. Damage adds
    ``unreadable``: to the row of a tensor its reason, to the document key and reason of each file.
    ``advance`` is called for each step. Raises ValueError for an unknown collection, BadPattern.
    """
    selected = _selection(run, regex, collection)
    workers = run.workers()
    document: Document = {
        "run": run.path,
        "finished": run.loaded_all_steps,
        "num_workers": run.num_workers or max(1, len(workers)),
        "workers": workers,
        "collections": {
            name: {
                "include_regex": list(found.include_regex),
                "tensor_names": list(found.tensor_names),
            }
            for name, found in run.collections().items()
        },
        "steps": {mode.name: run.steps(mode) for mode in (Mode.GLOBAL, *list(Mode)[:3])},
        "tensors": [
            row
            for step in _counted(run.steps(), advance)
            for index in run.index_files(step)
            for row in _rows(storage, index, selected, digest=digest)
        ],
    }
    if run.damaged:
        damaged = sorted(run.damaged.items())
        document["unreadable"] = [{"key": key, "reason": reason} for key, reason in damaged]
    return document


def print_tensors(document: Document, console: Console) -> None:
    """Print the document as a table, one line per tensor."""
    table = Table(title=styled(document["run"]), title_justify="left")
    for heading in ("tensor", "steps", "workers", "dtype", "shape"):
        table.add_column(heading, overflow="fold")
    grouped: dict[str, list[Document]] = {}
    for row in document["tensors"]:
        grouped.setdefault(row["name"], []).append(row)
    for name, rows in sorted(grouped.items())[:MOST_ROWS]:
        cells = (
            name,
            span(sorted({row["step"] for row in rows})),
            str(len({row["worker"] for row in rows})),
            _distinct(row["dtype"] for row in rows),
            _distinct(row["shape"] for row in rows),
        )
        table.add_row(*map(styled, cells))
    console.print(table)
    if (more := len(grouped) - MOST_ROWS) > 0:
        console.print(f"… and {more:,} more: --regex and --collection select, --json has all")
    state = "finished" if document["finished"] else "running"
    written = f"{len(document['workers'])} of {document['num_workers']} workers"
    steps = span(document["steps"]["GLOBAL"]) or "none"
    console.print(styled(f"{state}, {written}, complete steps: {steps}"))
    unreadable = [row for row in document["tensors"] if "unreadable" in row]
    for row in unreadable[:MOST_ROWS]:
        place = f"{row['name']} at step {row['step']} of {row['worker']}"
        console.print(styled(f"unreadable: {place}: {row['unreadable']}"))
    if (more := len(unreadable) - MOST_ROWS) > 0:
        console.print(f"… and {more:,} more unreadable")
    for file in document.get("unreadable", ()):
        console.print(styled(f"unreadable: {file['key']}: {file['reason']}"))


def saved_files(run: Trial, advance: Advance) -> Iterator[IndexFile]:
    """Yield the index files of all steps, complete or not, in their order."""
    for step in _counted(run.steps(show_incomplete_steps=True), advance):
        yield from run.index_files(step)


def _counted(steps: list[int], advance: Advance) -> Iterator[int]:
    for done, step in enumerate(steps):
        advance(done, len(steps))
        yield step
    advance(len(steps), len(steps))


def _selection(run: Trial, regex: str | None, collection: str | None) -> Callable[[str], bool]:
    known = run.collections()
    if collection is not None and collection not in known:
        names = ", ".join(sorted(known)) or "none"
        raise ValueError(f"run {run.path} has no collection {collection!r}; it has: {names}")

    def selected(name: str) -> bool:
        if regex is not None and not search(regex, name):
            return False
        return collection is None or known[collection].contains(name)

    return selected


def _rows(
    storage: Storage, index: IndexFile, selected: Callable[[str], bool], *, digest: bool
) -> Iterator[Document]:
    """One row per tensor of an index file; values are read only if the index says too little."""
    entries: dict[str, Entry | None] = {}
    for entry in index.entries:
        name = base_name(entry.name)
        if name == entry.name:
            entries[name] = entry
        else:
            entries.setdefault(name, None)
    entries = {name: entry for name, entry in entries.items() if selected(name)}
    unknown = {name for name, e in entries.items() if e and (digest or _nbytes(e) is None)}
    values = read_values(storage, index, unknown) if unknown else {}
    for name, found in entries.items():
        yield {
            "name": name,
            "step": index.step,
            "mode": index.mode.name,
            "mode_step": index.mode_step,
            "worker": index.worker,
        } | _facts(found, values.get(name), digest=digest)


def _facts(entry: Entry | None, value: Value | None, *, digest: bool) -> Document:
    shape = list(entry.shape) if entry and entry.shape is not None else None
    facts: Document = {"dtype": entry.dtype if entry else None, "shape": shape}
    if isinstance(value, Unreadable):
        return facts | {"unreadable": str(value)}
    if value is not None:
        if entry and entry.dtype == BFLOAT16:  # what is stored is its bits
            facts["nbytes"] = 2 * value.size
            value = to_bfloat16(value)
            return facts | _digest(value) if digest else facts
        facts = {"dtype": str(value.dtype), "shape": list(value.shape), "nbytes": value.nbytes}
        return facts | _digest(value) if digest else facts
    nbytes = _nbytes(entry) if entry and entry.start is not None else None
    return facts if nbytes is None else facts | {"nbytes": nbytes}


def _digest(value: NDArray[Any]) -> Document:
    return {"sha256": hashlib.sha256(content_bytes(value)).hexdigest()}


def _nbytes(entry: Entry) -> int | None:
    """The size of a tensor, if the index shows it."""
    size = itemsize(entry.dtype) if entry.dtype is not None else None
    return None if size is None or entry.shape is None else math.prod(entry.shape) * size


def _distinct(values: Iterator[Any]) -> str:
    """The values of the rows, each once; ``-`` for an unknown one."""
    return " | ".join(dict.fromkeys("-" if value is None else str(value) for value in values))

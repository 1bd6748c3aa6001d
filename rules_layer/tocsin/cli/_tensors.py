"""What a run holds: the document and the table of ``tocsin tensors``."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from tocsin.cli._output import Advance, Document
from tocsin.cli._text import plain, span
from tocsin.model import Mode
from tocsin.tensors import (
    BFLOAT16,
    Collection,
    Entry,
    IndexFile,
    Run,
    Unreadable,
    Value,
    base_name,
    content_bytes,
    itemsize,
    search,
    to_bfloat16,
)


def tensors_document(
    run: Run,
    *,
    digest: bool = False,
    regex: str | None = None,
    collection: str | None = None,
    advance: Advance = lambda done, total: None,
) -> Document:
    """The JSON of ``tocsin tensors``: tensors of all complete steps, or those selected.

    A tensor saved as reductions only stands once, under its own name. Damage adds ``unreadable``:
    the reason, in the entry of a tensor, and key and reason of each file in the document.
    ``advance`` is told of each step. Raises ValueError for an unknown collection, BadPattern.
    """
    selected = _selection(run, regex, collection)
    document: Document = {
        "run": run.url,
        "finished": run.finished,
        "num_workers": run.num_workers,
        "workers": list(run.workers),
        "collections": {
            name: {
                "include_regex": list(found.include_regex),
                "tensor_names": list(found.tensor_names),
            }
            for name, found in _collections(run).items()
        },
        "steps": {mode.name: run.steps(mode) for mode in (Mode.GLOBAL, *list(Mode)[:3])},
        "tensors": [
            row
            for step in _counted(run.steps(), advance)
            for index in run.indexes(step).values()
            for row in _rows(run, index, selected, digest=digest)
        ],
    }
    if run.damaged:
        document["unreadable"] = [{"key": k, "reason": r} for k, r in run.damaged.items()]
    return document


def print_tensors(document: Document, console: Console) -> None:
    """The document as a table: one line per tensor, the steps it was saved at run together."""
    table = Table(title=plain(document["run"]), title_justify="left")
    for heading in ("tensor", "steps", "workers", "dtype", "shape"):
        table.add_column(heading, overflow="fold")
    grouped: dict[str, list[Document]] = {}
    for row in document["tensors"]:
        grouped.setdefault(row["name"], []).append(row)
    for name, rows in sorted(grouped.items()):
        cells = (
            name,
            span(sorted({row["step"] for row in rows})),
            str(len({row["worker"] for row in rows})),
            _distinct(row["dtype"] for row in rows),
            _distinct(row["shape"] for row in rows),
        )
        table.add_row(*map(plain, cells))
    console.print(table)
    state = "finished" if document["finished"] else "running"
    written = f"{len(document['workers'])} of {document['num_workers']} workers"
    steps = span(document["steps"]["GLOBAL"]) or "none"
    console.print(plain(f"{state}, {written}, complete steps: {steps}"))
    for row in document["tensors"]:
        if "unreadable" in row:
            place = f"{row['name']} at step {row['step']} of {row['worker']}"
            console.print(plain(f"unreadable: {place}: {row['unreadable']}"))
    for file in document.get("unreadable", ()):
        console.print(plain(f"unreadable: {file['key']}: {file['reason']}"))


def _counted(steps: list[int], advance: Advance) -> Iterator[int]:
    for done, step in enumerate(steps):
        advance(done, len(steps))
        yield step


def _collections(run: Run) -> Mapping[str, Collection]:
    return run.collections.collections if run.collections else {}


def _selection(run: Run, regex: str | None, collection: str | None) -> Callable[[str], bool]:
    known = _collections(run)
    if collection is not None and collection not in known:
        names = ", ".join(sorted(known)) or "none"
        raise ValueError(f"run {run.url} has no collection {collection!r}; it has: {names}")

    def selected(name: str) -> bool:
        if regex is not None and not search(regex, name):
            return False
        return collection is None or known[collection].contains(name)

    return selected


def _rows(
    run: Run, index: IndexFile, selected: Callable[[str], bool], *, digest: bool
) -> Iterator[Document]:
    """One row per tensor of an index file; values are read only where the index says too little."""
    entries: dict[str, Entry | None] = {}
    for entry in index.entries:
        name = base_name(entry.name)
        if name == entry.name:
            entries[name] = entry
        else:
            entries.setdefault(name, None)
    entries = {name: entry for name, entry in entries.items() if selected(name)}
    unknown = {name for name, e in entries.items() if e and (digest or _nbytes(e) is None)}
    values = run.values(index.step, index.worker, unknown) if unknown else {}
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
    """The size of a tensor as far as the index tells it."""
    size = itemsize(entry.dtype) if entry.dtype is not None else None
    return None if size is None or entry.shape is None else math.prod(entry.shape) * size


def _distinct(values: Iterator[Any]) -> str:
    """What there is among the rows, each once; ``-`` where nothing is known."""
    return " | ".join(dict.fromkeys("-" if value is None else str(value) for value in values))

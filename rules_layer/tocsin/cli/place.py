"""Opens RUN: a local folder, ``s3://bucket/prefix``, files of Amazon's profiler, or a history of
another tool.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

from tocsin.cli.errors import CommandError
from tocsin.cli.output import note
from tocsin.evaluation import watch_of_history
from tocsin.histories import BY_NAMES, Choices, HistoryRun, Reader, as_run, reader_of
from tocsin.installing import install
from tocsin.profile import has_profiler_files, named_as_run, open_run, unreadable_profile
from tocsin.tensors import (
    COLLECTIONS,
    INDEX,
    LocalStorage,
    NotFound,
    Storage,
    is_machine_run,
    machine_run,
    parse_index_key,
)
from tocsin.trial import NotARun, not_a_run

_MARKS = {INDEX.rstrip("/"), COLLECTIONS.rstrip("/")}


def storage_of(url: str, choices: Choices = BY_NAMES, *, may_come: bool = False) -> Storage:
    """Return the files at ``url``. Raises CommandError if it names no place, BadHistory.

    A history of another tool is read as a run in memory. ``choices`` say how, where its names and
    columns do not.

    may_come: whether a folder may be made later, and read while it grows.
    """
    reader = _history(url, choices, may_come=may_come)
    if reader is None:
        return named_as_run(open_run(url, note=note), note)
    if may_come:
        raise CommandError(
            f"{url} is a history of another tool: read it with tocsin check, "
            "or follow it with tocsin watch"
        )
    return as_run(reader, note, choices, configure=watch_of_history)


def baselines_at(urls: Sequence[str]) -> list[Storage]:
    """Return the runs of ``--baseline``. Raises CommandError for a place without a run,
    BadHistory."""
    found = [storage_of(url) for url in urls]
    for url, storage in zip(urls, found, strict=True):
        if not steps_at(storage):
            raise CommandError(f"--baseline {url}: it has no saved step to compare with")
    return found


def local_folder(place: str) -> Path | None:
    """Return the folder of this name; None for a URL, and for the name of a job.

    Raises CommandError for a path that does not exist, and for a name without a folder where
    nothing can ask for a job.
    """
    folder = Path(place).expanduser()
    if "://" in place:
        return None
    if folder.is_dir():
        return folder
    if os.sep in place:  # a job's name has none
        raise CommandError(f"{place}: no such folder; a run in S3 is s3://bucket/prefix")
    if not _is_installed("boto3"):
        raise CommandError(
            f"{place}: no such folder; if it is the name of a job, install boto3: {install('aws')}"
        )
    return None


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ValueError:  # its import is blocked
        return False


def machine_storage(url: str) -> Storage:
    """Return the machine run at ``url``, or of the training's run there. Raises CommandError."""
    own = named_as_run(open_run(url, note=note), note)
    if is_machine_run(own.url):
        return storage_of(url)
    return storage_of(machine_run(url))


def growing(url: str, choices: Choices = BY_NAMES) -> tuple[Storage, Callable[[], None]]:
    """Return the files at ``url``, which may appear later, and a function to call before reading.

    Raises CommandError if it names no place, BadHistory.
    """
    reader = _history(url, choices, may_come=True)
    if reader is None:
        return open_run(url, note=note), lambda: None
    run = HistoryRun(reader, note, choices, watch_of_history)
    return run.storage, run.refresh


def _history(url: str, choices: Choices, *, may_come: bool) -> Reader | None:
    """The reader of a history of another tool; None for a run."""
    if not url.strip():
        raise CommandError("RUN is empty: name a folder or s3://bucket/prefix")
    path = Path(url).expanduser()
    if not may_come and "://" not in url and not path.exists():
        raise CommandError(
            f"{url}: no such folder; a training that fails before its first step leaves none"
        )
    is_other = "://" in url or folder_of_runs(url) or has_profiler_files(LocalStorage(path))
    reader = None if is_other else reader_of(path, choices.step)
    if reader is None and choices != BY_NAMES:
        raise CommandError(
            f"{url}: this is a run; --loss, --step and --training are for histories of other tools"
        )
    return reader


def saved_steps(storage: Storage) -> int:
    """Return the number of steps with index files."""
    places = (parse_index_key(found.key) for found in storage.list(INDEX))
    return len({place[0] for place in places if place})


def steps_at(storage: Storage) -> int:
    """Return the number of steps with index files. Raises NotARun if there is no run."""
    try:
        steps = saved_steps(storage)
        if steps or _any(storage, COLLECTIONS):
            return steps
        if profile := unreadable_profile(storage):
            raise NotARun(
                f"{storage.url} is not a run: it has profiles of TensorFlow alone ({profile}), and "
                "neither system metrics nor timelines. Open them in TensorBoard; PandasFrame reads "
                "traces that have a .metadata file"
            )
        raise not_a_run(storage)
    except NotFound:  # the bucket
        raise not_a_run(storage) from None


def _any(storage: Storage, prefix: str) -> bool:
    return any(True for _ in storage.list(prefix))


def runs_in(folder: Path) -> Iterator[Path]:
    """Yield the runs in a folder and below it, in order of their paths. The folder itself may be
    one."""
    for path, folders, _ in os.walk(folder):
        if _MARKS & set(folders):
            folders.clear()
            yield Path(path)
        folders.sort()


def folder_of_runs(place: str) -> Path | None:
    """Return the folder at ``place`` if it is not a run itself, but has runs below it."""
    folder = Path(place).expanduser()
    if "://" in place or not folder.is_dir():
        return None
    return folder if next(runs_in(folder), folder) != folder else None

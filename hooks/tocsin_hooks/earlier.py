"""A finished run in the folder that a new start is about to write to."""

from __future__ import annotations

import logging
from itertools import islice

from tocsin.tensors import Storage, index_objects, parse_index_key, read_end

from tocsin_hooks.guard import Guard

_log = logging.getLogger("tocsin")
_MOST_FILES = 10_000  # that are counted


def warn_of_finished_run(storage: Storage, run_id: str) -> None:
    """Warn that a finished run is about to be overwritten.

    Says nothing if that cannot be found out: the role of a job may not read or list its bucket.
    """
    with Guard(_debug, "%s: cannot tell whether it already contains a run", storage.url):
        end = read_end(storage)
        if end is None or end.run_id == run_id:
            return
        _log.warning(
            "%s already contains a finished run of %s, and this training overwrites it: choose "
            "another folder, or pass resumed_from= to continue that run",
            storage.url,
            _steps(storage),
        )


def _debug(what: str, error: Exception) -> None:
    _log.debug("%s: %s", what, error)


def _steps(storage: Storage) -> str:
    files = list(islice(index_objects(storage), _MOST_FILES))
    steps = len({place[0] for file in files if (place := parse_index_key(file.key))})
    count = f"{steps} step{'' if steps == 1 else 's'}"
    return count if len(files) < _MOST_FILES else f"at least {count}"

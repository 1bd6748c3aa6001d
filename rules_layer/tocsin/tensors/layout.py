"""The keys of a run's files, and the run and job that a file belongs to."""

from __future__ import annotations

import re
from datetime import datetime, timezone

END_MARKER = "training_job_end.ts"
WATCH = "watch.json"
STOP = "STOP.json"
PACE = "pace.json"
TRACE = "TRACE.json"
INDEX = "index/"
COLLECTIONS = "collections/"
_TRAINING_RUN, _MACHINE_RUN = "debug-output", "profiler-output"  # SageMaker's names

_NO_MINUTE = 10**8  # since 1970: a demo may have shorter ones, whose numbers are higher
LONG_STEP = 10**12  # the first that is longer than the 12 digits to which steps are padded
_DIGITS = 18  # fits 64 bits, so a file name cannot make an absurd number
_WORKER = r"[^/\0]{1,255}"
_INDEX_KEY = re.compile(rf"index/(\d{{9,{_DIGITS}}})/(\d{{12,{_DIGITS}}})_({_WORKER})\.json")
_COLLECTIONS_KEY = re.compile(rf"collections/\d{{9,{_DIGITS}}}/({_WORKER})_collections\.json")
_EVENT_NAME = re.compile(rf"events/\d{{1,{_DIGITS}}}/\d{{1,{_DIGITS}}}_{_WORKER}\.tfevents")
_RUN_KEY = re.compile(
    rf"(?:(?P<run>.+)/)?(?P<key>{_INDEX_KEY.pattern}|{_COLLECTIONS_KEY.pattern}"
    rf"|{re.escape(END_MARKER)}|{re.escape(WATCH)})"
)


def index_key(step: int, worker: str) -> str:
    """Return the key of a worker's index file of a step. Raises ValueError for a bad step or
    worker."""
    return f"index/{_bucket(step):09d}/{step:012d}_{worker_part(worker)}.json"


def event_key(step: int, worker: str) -> str:
    """Return the key of a worker's event file of a step. Raises ValueError for a bad step or
    worker."""
    return f"events/{step:012d}/{step:012d}_{worker_part(worker)}.tfevents"


def collections_key(worker: str) -> str:
    """Return the key of a worker's collections file."""
    return f"collections/000000000/{worker_part(worker)}_collections.json"


def parse_index_key(key: str) -> tuple[int, str] | None:
    """Return the step and worker of an index file; None for any other file."""
    match = _INDEX_KEY.fullmatch(key)
    if match is None:
        return None
    step, worker = int(match[2]), _decode(match[3])
    canonical = f"index/{_bucket(step):09d}/{step:012d}_"
    return (step, worker) if key.startswith(canonical) else None


def parse_collections_key(key: str) -> str | None:
    """Return the worker of a collections file; None for any other file."""
    match = _COLLECTIONS_KEY.fullmatch(key)
    return _decode(match[1]) if match else None


def after_step(step: int) -> str:
    """Return a key after every index file of ``step``, and before those of later steps.

    Names of more than 12 digits sort before shorter ones that begin with a higher digit. So from
    step 10¹¹ on, where there may be longer ones to follow, the key comes after all steps below
    10¹¹ only: the files listed after it have to be compared by number, as ``index_objects`` does.
    """
    if step < 0:
        return INDEX
    return f"{INDEX}0~" if step >= LONG_STEP // 10 else right_after_step(step)


def right_after_step(step: int) -> str:
    """Return a key after every index file of ``step``, and before those of later steps that have as
    many digits. Those of more digits may come before it.
    """
    if step < 0:
        return INDEX
    return f"index/{_bucket(step):09d}/{step:012d}`"  # "`" comes right after "_"


def has_more_digits(step: int, other: int) -> bool:
    """Return whether the names of a step's files do not sort with those of ``other``."""
    return len(str(step)) > max(12, len(str(other)))


def resolve_event(name: str) -> str:
    """Return the key of an ``event_file_name``, which may only name an event file of the same
    run."""
    if len(name) > 600 or not _EVENT_NAME.fullmatch(name):
        raise ValueError(f"event_file_name {name[:80]!r} is not of the form events/…/….tfevents")
    return name


def split_key(key: str) -> tuple[str, str] | None:
    """``(prefix of the run, key inside the run)`` for a file whose arrival says something new.

    Those are index files, collections files, the end marker and ``watch.json``; None for others.
    """
    match = _RUN_KEY.fullmatch(key)
    return (match["run"] or "", match["key"]) if match else None


def job_name(run_url: str) -> str:
    """Return the training job a run belongs to: its last path part, apart from ``debug-output`` and
    ``profiler-output``.
    """
    parts = [part for part in run_url.partition("://")[2].split("/") if part]
    if "://" not in run_url:
        parts = [part for part in re.split(r"[/\\]", run_url) if part]
    for name in (_MACHINE_RUN, _TRAINING_RUN):
        if len(parts) > 1 and parts[-1] == name:
            parts.pop()
    return parts[-1] if parts else ""


def writes_to(output: str, run_url: str) -> bool:
    """Return whether a SageMaker job of the run's name, with that output path, writes the run."""
    base, name = _normal(output), job_name(run_url)
    runs = (base, f"{base}/debug-output", f"{base}/{name}", f"{base}/{name}/debug-output")
    return any(is_same_run(run, run_url) for run in runs)


def is_same_run(url: str, run_url: str) -> bool:
    """Return whether ``url`` names the run, or the training run of a machine run.

    Slashes may be doubled, or stand at the end.
    """
    names = (_normal(url), machine_run(url), f"{_normal(url)}/{_MACHINE_RUN}")
    return _normal(run_url) in names


def machine_run(run_url: str) -> str:
    """Return the machine run of a training run: ``profiler-output`` in the folder of the job."""
    run = _normal(run_url)
    folder = run.removesuffix(f"/{_TRAINING_RUN}")
    return f"{folder}/{_MACHINE_RUN}"


def is_machine_run(run_url: str) -> bool:
    """Return whether a run holds the metrics of machines, and no tensors of a training."""
    return re.split(r"[/\\]", run_url.rstrip("/\\"))[-1] == _MACHINE_RUN


def step_text(run_url: str, step: int) -> str:
    """Return a step for people: ``step 120``, or the time of a minute of a machine run."""
    if not is_machine_run(run_url) or step >= _NO_MINUTE:
        return f"step {step}"
    return f"{datetime.fromtimestamp(60 * step, timezone.utc):%Y-%m-%d %H:%M} UTC"


def _normal(url: str) -> str:
    scheme, separator, path = url.partition("://")
    return scheme + separator + re.sub("/+", "/", path).rstrip("/")


def _bucket(step: int) -> int:
    """The folder of an index file: each holds a thousand steps."""
    if not 0 <= step < 10**_DIGITS:
        raise ValueError(f"step {step} is negative or has more than {_DIGITS} digits")
    return step // 1000


def worker_part(worker: str) -> str:
    """Return a worker as part of a file name: TensorFlow's are device paths."""
    name = worker.replace("/", "_").replace(":", "-")
    if not re.fullmatch(_WORKER, name):
        raise ValueError(f"worker {worker[:80]!r} is not a name of 1 to 255 characters")
    return name


def _decode(name: str) -> str:
    """Only a device path begins with ``_``: other names may hold any ``_`` and ``-``."""
    return name.replace("_", "/").replace("-", ":") if name.startswith("_") else name

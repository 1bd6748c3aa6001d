"""Reads a watch file: YAML or JSON, Tocsin's form or Amazon's DebugRuleConfigurations."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from typing import Any

import msgspec

from tocsin.installing import install
from tocsin.tensors import NotAFile, open_regular
from tocsin.watch.capture import plain_capture
from tocsin.watch.config import Capture, Watch
from tocsin.watch.errors import BadWatch, Fault, message
from tocsin.watch.parts import to_parts

MOST_BYTES = 1 << 20
_MOST_WRITTEN_OUT = 8 << 20
_STREAMS = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")


def read_watch(path: str | Path, *, mild: Callable[[Fault], None] | None = None) -> Watch:
    """Return the watch file at ``path``, YAML or JSON. Raises BadWatch, OSError.

    With ``mild``, faults that concern only notification are passed to it and do not raise.
    """
    path = Path(path)
    try:
        return parse_watch(watch_bytes(path), yaml=is_yaml(path), mild=mild)
    except BadWatch as error:
        raise BadWatch(f"{path}: {error}") from error


def is_yaml(path: Path) -> bool:
    """Return whether the file is read as YAML, by its name. Otherwise it is read as JSON."""
    return path.suffix in (".yaml", ".yml")


def watch_bytes(path: Path) -> bytes:
    """Return the bytes of a watch file. Raises BadWatch, OSError.

    ``/dev/stdin`` and ``<(command)`` are allowed: the user has a writer that closes them. Any other
    file must be a regular one. Reading a named pipe, perhaps in a run of somebody else, may never
    end.
    """
    try:
        stream = str(path).startswith(_STREAMS)
        with path.open("rb") if stream else os.fdopen(open_regular(str(path)), "rb") as opened:
            data: bytes = opened.read(MOST_BYTES + 1)
    except NotAFile as error:
        raise BadWatch(f"{error.kind}, not a file: give a file, or /dev/stdin") from None
    if len(data) > MOST_BYTES:
        raise BadWatch(f"larger than {MOST_BYTES} bytes")
    return data


def parse_watch(
    data: bytes, *, yaml: bool = False, mild: Callable[[Fault], None] | None = None
) -> Watch:
    """Return a watch file's content. Raises BadWatch; ``mild`` as in ``read_watch``."""
    return _strict(_plain_data(data, yaml=yaml), mild)


def parse_parts(
    data: bytes, *, yaml: bool = False, now: datetime | None = None
) -> tuple[Watch, tuple[Fault, ...]]:
    """Return the usable parts of a watch file's content, and the faults, as in ``to_parts``.

    Does not check what the parts mean: see ``faults``. Raises BadWatch if no part can be used.
    """
    return to_parts(_plain_data(data, yaml=yaml), now)


def encode_watch(watch: Watch) -> bytes:
    """Return a Watch as the content of ``watch.json``."""
    content = msgspec.to_builtins(dataclasses.replace(watch, capture=Capture()))
    content["capture"] = plain_capture(watch.capture)
    # No machine is watched without its key, and an older deployment refuses keys it does not know.
    for key in ("machine", "extend_profile", "disable"):
        if not content[key]:
            del content[key]
    for silence in content["silences"]:
        del silence["id"]
    return msgspec.json.format(msgspec.json.encode(content), indent=1)


def to_watch(content: Any) -> Watch:
    """Plain data, as JSON or YAML gives it, as a Watch. Raises BadWatch."""
    return _strict(content, None)


def _strict(content: Any, mild: Callable[[Fault], None] | None) -> Watch:
    watch, found = to_parts(content)
    for fault in found:
        if mild is None or not fault.mild:
            raise BadWatch(str(fault))
        mild(fault)
    return watch


def _plain_data(data: bytes, *, yaml: bool) -> Any:
    """Mappings, lists, texts, numbers, booleans, None. Raises BadWatch."""
    return _yaml(data) if yaml else _json(data)


def _json(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (ValueError, RecursionError) as error:  # bytes that are not UTF-8 raise ValueError
        raise BadWatch(f"not JSON: {message(error)}") from error


def _yaml(data: bytes) -> Any:
    try:
        import yaml
    except ImportError as error:
        raise BadWatch(f"YAML needs PyYAML: {install('cli')}; or write JSON") from error
    try:
        content = yaml.safe_load(data)
    except Exception as error:  # `!!bool x` is a KeyError there, and so on
        raise BadWatch(f"not YAML: {message(error)}") from error
    try:  # .nan and the like cannot be stored as JSON
        return msgspec.json.decode(_as_json(content))
    except BadWatch:
        raise
    except (TypeError, ValueError, RecursionError) as error:
        raise BadWatch(f"JSON has no such value: {message(error)}") from error


def _as_json(content: Any) -> str:
    """Write out the aliases of YAML, up to a limit: a few lines can expand to gigabytes."""
    encoder = json.JSONEncoder(allow_nan=False, default=_text_of_date)
    parts, size = [], 0
    for part in encoder.iterencode(content):
        parts.append(part)
        size += len(part)
        if size > _MOST_WRITTEN_OUT:
            raise BadWatch(f"its aliases expand to more than {_MOST_WRITTEN_OUT} bytes")
    return "".join(parts)


def _text_of_date(value: Any) -> str:
    """Dates and times of YAML become text, as in JSON."""
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(f"got {type(value).__name__}")

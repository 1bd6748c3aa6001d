"""A watch file becomes a Watch: YAML or JSON, ours or Amazon's DebugRuleConfigurations."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from tocsin.tensors import NotAFile, open_regular
from tocsin.watch._bad import BadWatch, Fault
from tocsin.watch._capture import plain_capture
from tocsin.watch._config import Capture, Watch
from tocsin.watch._content import plain_data
from tocsin.watch._survey import surveyed

MOST_BYTES = 1 << 20
_STREAMS = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")


def read_watch(path: str | Path, *, mild: Callable[[Fault], None] | None = None) -> Watch:
    """The watch file at ``path``, YAML or JSON. Raises BadWatch, OSError.

    With ``mild``, faults that only concern what is told are passed to it, and the rest is used.
    """
    path = Path(path)
    try:
        return parse_watch(watch_bytes(path), yaml=is_yaml(path), mild=mild)
    except BadWatch as error:
        raise BadWatch(f"{path}: {error}") from error


def is_yaml(path: Path) -> bool:
    """Whether the file is read as YAML, by its name; otherwise it is read as JSON."""
    return path.suffix in (".yaml", ".yml")


def watch_bytes(path: Path) -> bytes:
    """The bytes of a watch file. Raises BadWatch, OSError.

    A user who gives ``/dev/stdin`` or ``<(command)`` has somebody at the other end, who writes
    and closes. A named pipe lies in a folder, perhaps in a run that somebody else wrote:
    reading it may never end, so it is refused, as is whatever else is not a regular file.
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
    """A watch file's content. Raises BadWatch; ``mild`` as in ``read_watch``."""
    return _without(plain_data(data, yaml=yaml), mild)


def encode_watch(watch: Watch) -> bytes:
    """A Watch as ``watch.json`` carries it."""
    content = msgspec.to_builtins(dataclasses.replace(watch, capture=Capture()))
    content["capture"] = plain_capture(watch.capture)
    for silence in content["silences"]:
        del silence["id"]
    return msgspec.json.format(msgspec.json.encode(content), indent=1)


def to_watch(content: Any) -> Watch:
    """Plain data (what JSON or YAML gives) as a Watch. Raises BadWatch."""
    return _without(content, None)


def _without(content: Any, mild: Callable[[Fault], None] | None) -> Watch:
    watch, found = surveyed(content)
    for fault in found:
        if mild is None or not fault.mild:
            raise BadWatch(str(fault))
        mild(fault)
    return watch

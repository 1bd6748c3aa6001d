"""A watch file becomes a Watch: YAML or JSON, ours or Amazon's DebugRuleConfigurations."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from tocsin.watch._bad import BadWatch, Fault
from tocsin.watch._capture import plain_capture
from tocsin.watch._config import Capture, Watch
from tocsin.watch._content import plain_data
from tocsin.watch._survey import surveyed

MOST_BYTES = 1 << 20


def read_watch(path: str | Path, *, mild: Callable[[Fault], None] | None = None) -> Watch:
    """The watch file at ``path``, YAML or JSON. Raises BadWatch, OSError.

    With ``mild``, faults that only concern what is told are passed to it, and the rest is used.
    """
    path = Path(path)
    if path.stat().st_size > MOST_BYTES:
        raise BadWatch(f"{path}: larger than {MOST_BYTES} bytes")
    try:
        return parse_watch(path.read_bytes(), yaml=path.suffix in (".yaml", ".yml"), mild=mild)
    except BadWatch as error:
        raise BadWatch(f"{path}: {error}") from error


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

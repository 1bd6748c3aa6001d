"""A file's bytes as plain data, YAML or JSON: what can be stored as JSON and nothing else."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import msgspec

from tocsin.watch._bad import BadWatch, plain

_MOST_WRITTEN_OUT = 8 << 20


def plain_data(data: bytes, *, yaml: bool) -> Any:
    """Mappings, lists, texts, numbers, booleans, None. Raises BadWatch."""
    return _yaml(data) if yaml else _json(data)


def _json(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (ValueError, RecursionError) as error:  # not UTF-8 is a ValueError, no DecodeError
        raise BadWatch(f"not JSON: {plain(error)}") from error


def _yaml(data: bytes) -> Any:
    try:
        import yaml
    except ImportError as error:
        raise BadWatch("YAML needs PyYAML: pip install 'tocsin[cli]', or write JSON") from error
    try:
        content = yaml.safe_load(data)
    except Exception as error:  # `!!bool x` is a KeyError there, and so on
        raise BadWatch(f"not YAML: {plain(error)}") from error
    try:  # .nan and the like, which would not survive being stored as JSON
        return msgspec.json.decode(_as_json(content))
    except BadWatch:
        raise
    except (TypeError, ValueError, RecursionError) as error:
        raise BadWatch(f"a value that JSON does not have: {plain(error)}") from error


def _as_json(content: Any) -> str:
    """Aliases of YAML are written out, up to a limit: a few lines of them can mean gigabytes."""
    encoder = json.JSONEncoder(allow_nan=False, default=_as_written)
    parts, size = [], 0
    for part in encoder.iterencode(content):
        parts.append(part)
        size += len(part)
        if size > _MOST_WRITTEN_OUT:
            raise BadWatch(f"with its aliases written out it has over {_MOST_WRITTEN_OUT} bytes")
    return "".join(parts)


def _as_written(value: Any) -> str:
    """YAML knows dates and times; here they are text, as in JSON."""
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(f"got {type(value).__name__}")

"""Regular expressions that come from files, and so cannot be trusted to end."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Any

_MAX_PATTERN = 1000
SECONDS = 0.1


class BadPattern(ValueError):
    """A pattern does not compile, or takes too long."""


def search(pattern: str, text: str, seconds: float = SECONDS) -> bool:
    """Return whether ``pattern`` matches anywhere in ``text``, as ``re.search`` has it.

    Raises BadPattern when it does not compile or takes longer than ``seconds``. Without the package
    ``regex`` there is no limit on time.
    """
    compiled = _compile(pattern)
    if _engine() is re:
        return compiled.search(text) is not None
    try:
        return compiled.search(text, timeout=seconds) is not None
    except TimeoutError:
        raise BadPattern(f"pattern {pattern!r} takes longer than {seconds} s") from None


@lru_cache(maxsize=1024)
def _compile(pattern: str) -> Any:
    if len(pattern) > _MAX_PATTERN:
        raise BadPattern(f"pattern has {len(pattern)} characters, more than {_MAX_PATTERN}")
    engine = _engine()
    try:
        return engine.compile(pattern)
    except (engine.error, RecursionError, OverflowError) as error:
        raise BadPattern(f"pattern {pattern!r} is not a regular expression: {error}") from None


@cache
def _engine() -> Any:
    """The package ``regex``, loaded at the first pattern: many runs have none."""
    try:
        import regex
    except ModuleNotFoundError:  # a base install, where a job reads only patterns of its own
        return re
    return regex

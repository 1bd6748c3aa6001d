"""The line of the training script that we are called from."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

_INSTALLED = ("site-packages", "dist-packages")
_FRAMEWORKS = ("keras", "torch")  # that may stand elsewhere


def script_line() -> str:
    """Return the line of the script, such as ``train.py:31``; empty if it is unknown."""
    frame = _script_frame()
    return "" if frame is None else f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


def caller_at(frame: FrameType) -> Callable[[Any, Any, Any], Any]:
    """Return a function that calls another one as from the line where ``frame`` is: a warning names
    that line, and is shown once for it."""
    code, key = frame.f_code, (id(frame.f_code), frame.f_lasti)
    kept = _calls.get(key)
    if kept is None:
        if len(_calls) == _MOST_PLACES:
            _calls.clear()
        line = (frame.f_lineno or 1) - 1
        own = _CALL.replace(co_filename=code.co_filename, co_firstlineno=line)
        kept = _calls[key] = code, own
    return FunctionType(kept[1], frame.f_globals)


def _call(function: Any, args: Any, kwargs: Any) -> Any:
    return function(*args, **kwargs)


# Named as what a mode defines: who looks for the line that calls ``backward`` skips it.
_CALL = _call.__code__.replace(co_name="__torch_function__")
_MOST_PLACES = 1 << 12
_calls: dict[tuple[int, int], tuple[CodeType, CodeType]] = {}
"""Codes of calls by where they stand: to ask a frame for its line is slow. The first code of each
pair is kept because its identity is the key."""


@cache
def _elsewhere() -> tuple[str, ...]:
    """Return the folders of imported frameworks, of Python and of Tocsin."""
    imported = (sys.modules.get(name) for name in _FRAMEWORKS)
    files = [str(each.__file__) for each in imported if each is not None] + [__file__]
    folders = (sysconfig.get_path("stdlib"), *(str(Path(file).parent) for file in files))
    return ("<", *(f"{folder}{os.sep}" for folder in folders))


def _script_frame() -> FrameType | None:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not (file.startswith(_elsewhere()) or any(each in file for each in _INSTALLED)):
            return frame
        frame = frame.f_back
    return None

"""A Python script or module, run as the interpreter itself would run it."""

from __future__ import annotations

import builtins
import io
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, ModuleType, TracebackType


class CannotRun(Exception):
    """The script or module is not there, or is none that can be run."""


def run_script(path: str, arguments: Sequence[str]) -> None:
    """Run a script like ``python path *arguments``. Raises the exceptions of the script."""
    file = Path(path)
    if file.is_dir():
        raise CannotRun(f"{path} is a folder: name the script in it")
    try:
        with io.open_code(str(file.absolute())) as opened:
            source = opened.read()
    except OSError as error:
        raise CannotRun(f"cannot open {path}: {error.strerror or error}") from None
    main = _main(str(file.absolute()), None)
    main.__loader__ = SourceFileLoader("__main__", str(file.absolute()))
    if not getattr(sys.flags, "safe_path", False):  # Python 3.11's -P
        sys.path[0] = str(file.resolve().parent)
    sys.argv[:] = [path, *arguments]
    # What this file itself imports from __future__ must not hold for the script.
    _execute(compile(source, str(file.absolute()), "exec", dont_inherit=True), main)


def run_module(name: str, arguments: Sequence[str]) -> None:
    """Like ``python -m name *arguments``."""
    spec, code = _module(name)
    main = _main(spec.origin, spec.cached)
    main.__loader__, main.__package__, main.__spec__ = spec.loader, spec.parent, spec
    sys.argv[:] = [spec.origin or name, *arguments]
    _execute(code, main)


def without_our_frames(traceback: TracebackType | None) -> TracebackType | None:
    """Return the traceback from the script's first line on."""
    ours = Path(__file__).parent
    while traceback and Path(traceback.tb_frame.f_code.co_filename).parent == ours:
        traceback = traceback.tb_next
    return traceback


def _main(file: str | None, cached: str | None) -> ModuleType:
    """An empty ``__main__``, in the place of ours."""
    main = ModuleType("__main__")
    vars(main).update(__file__=file, __cached__=cached, __builtins__=builtins)
    sys.modules["__main__"] = main
    return main


def _module(name: str) -> tuple[ModuleSpec, CodeType]:
    try:
        spec = find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            name = f"{name}.__main__"
            spec = find_spec(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # a package on the way lacks something
        spec = None
    except ValueError:  # "__main__" and the like
        spec = None
    if spec is None or spec.loader is None:
        raise CannotRun(f"no module named {name}")
    code = spec.loader.get_code(spec.name) if hasattr(spec.loader, "get_code") else None
    if code is None:
        raise CannotRun(f"{name} has no Python code to run")
    return spec, code


def _execute(code: CodeType, main: ModuleType) -> None:
    exec(code, vars(main))  # noqa: S102 - it is the user's own script, run at their command

"""Capture a PyTorch script without changing it: ``python -m tocsin_hooks.run train.py …``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tocsin.watch import Watch

from tocsin_hooks.container import container, switched_off
from tocsin_hooks.imports import when_imported
from tocsin_hooks.script import CannotRun, run_module, run_script, without_our_frames
from tocsin_hooks.settings import given_watch

if TYPE_CHECKING:  # PyTorch is imported by the script, not for it
    from tocsin_hooks.torch.first_model import FirstModel

_DESCRIPTION = """\
Run a PyTorch training script as `python` would, and capture it: the first model that computes
gradients and that an optimizer updates, its losses and its optimizer. With TOCSIN=0 in the
environment the script just runs."""
_EXAMPLES = """\
examples:
  python -m tocsin_hooks.run train.py --epochs 3
  python -m tocsin_hooks.run --out s3://bucket/jobs/j1 --watch watch.yaml -m package.train
  torchrun --nproc-per-node 2 -m tocsin_hooks.run train.py
"""
_DEFAULT_RUN = "tocsin-run"
_ExceptHook = Callable[[type[BaseException], BaseException, TracebackType | None], Any]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the script, and end with its exception or exit code."""
    options = _parser().parse_args(arguments)
    captures: list[FirstModel] = []
    if not switched_off():
        when_imported("torch", lambda: captures.extend(_captures(options)))
    finished = False
    try:
        (run_module if options.module else run_script)(options.script, options.arguments)
        finished = True
    except CannotRun as error:
        print(f"tocsin_hooks.run: {error}", file=sys.stderr)  # noqa: T201 - a command
        sys.exit(2)
    except SystemExit as error:
        finished = error.code in (None, 0)
        raise
    except BaseException as error:
        sys.excepthook = _without_us(sys.excepthook, error)
        raise
    finally:
        for capture in captures:
            capture.close(finished=finished)


def _captures(options: argparse.Namespace) -> Iterator[FirstModel]:
    """Capture the script, unless it imports the hook itself."""
    if "tocsin_hooks.torch" in sys.modules:
        return
    from tocsin_hooks.torch.first_model import FirstModel

    yield FirstModel(
        _run(options.out),
        options.model,
        raise_on_stop=options.stop,
        watch=options.watch,
        save_interval=options.save_interval,
    )


def _run(out: str | None) -> str | None:
    """Return where to write. None: the hook reports faults of SageMaker's configuration."""
    try:
        found = container()
    except (ValueError, OSError):
        return out
    return out or (found.path if found else None) or os.environ.get("TOCSIN_RUN") or _DEFAULT_RUN


def _without_us(show: _ExceptHook, ended_by: BaseException) -> _ExceptHook:
    """Show the error that ended the script as if the script had been run alone."""
    traceback = without_our_frames(ended_by.__traceback__)

    def shown(kind: type[BaseException], error: BaseException, tb: TracebackType | None) -> Any:
        if error is not ended_by:
            return show(kind, error, tb)
        return show(kind, error.with_traceback(traceback), traceback)

    return shown


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tocsin_hooks.run",
        usage="%(prog)s [options] [-m] script-or-module [arguments of the script …]",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--out", metavar="RUN", help="the run: a folder or s3://bucket/prefix; default: where "
        "SageMaker says, else $TOCSIN_RUN, else ./tocsin-run")  # fmt: skip
    add("--watch", metavar="FILE", type=_watch, help="a watch file: rules, and what to capture")
    add("--save-interval", metavar="N", type=_positive, help="save every N steps")
    add("--model", metavar="CLASS", help="capture the first model of that class")
    add("--stop", action="store_true", help="end the script after a stop was requested: "
        "raise TrainingStopped at the next step")  # fmt: skip
    add("-m", "--module", action="store_true", help="what follows is a module, as for python -m")
    add("script", metavar="script-or-module", help="what to run")
    add("arguments", nargs=argparse.REMAINDER, help="of the script")
    return parser


def _watch(path: str) -> Watch | None:
    try:
        return given_watch(path)
    except (ValueError, OSError) as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of steps, at least 1")
    return int(text)


if __name__ == "__main__":
    main()

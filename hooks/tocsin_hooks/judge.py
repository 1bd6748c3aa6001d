"""The judge of a run: a child process that evaluates it while the training writes it.

It has the code of ``tocsin check --follow``. The training pays for a thread that waits for lines.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal, TextIO, cast

import msgspec
from tocsin.events import StatusChange

from tocsin_hooks.guard import Guard, log_error
from tocsin_hooks.log import logger

Judge = bool | Literal["stop"] | Callable[[StatusChange], object]
"""The option that judges a run in a process beside the training; ``"stop"`` also raises
TrainingStopped where a rule has the action stop; a function gets each status change."""

_VARIABLE = "TOCSIN_JUDGE"
_OFF = ("", "0", "false", "no", "off")
_ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "VECLIB")}
_AT_EXIT_SECONDS = 30.0


class _Line(msgspec.Struct):
    """One line of the child: to be logged, passed on, or shown."""

    say: str = ""
    stop: str = ""
    page: str = ""
    change: StatusChange | None = None


def asked(judge: Judge | None) -> Judge:
    """Return the argument of the script, or the variable. Raises ValueError for other values."""
    if judge is None:
        text = os.environ.get(_VARIABLE, "").strip().lower()
        judge = False if text in _OFF else "stop" if text == "stop" else True
    if not (isinstance(judge, bool) or judge == "stop" or callable(judge)):
        raise ValueError(f"judge is {judge!r}, but must be True, False, 'stop' or a function")
    return judge


class RunJudge:
    """Judges the run at ``url`` from now on. Silent if the child dies.

    on_stop: called when a rule has asked for a stop, and ``judge`` is ``"stop"``.
    """

    def __init__(self, url: str, judge: Judge, on_stop: Callable[[], object]) -> None:
        self.stopped_by = ""
        self._change = judge if callable(judge) else None
        self._on_stop = on_stop if judge == "stop" else None
        self._pid = os.getpid()
        self._page = ""
        page = ("page",) if _in_notebook() else ()
        self._child = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-m", "tocsin.judge", url, str(time.time()), str(self._pid), *page],
            env={**_ONE_THREAD, **os.environ, "PYTHONPATH": _path()},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )
        self._stdin = cast("TextIO", self._child.stdin)
        self._stdout = cast("TextIO", self._child.stdout)
        self._thread = threading.Thread(target=self._read, name="tocsin-judge", daemon=True)
        self._thread.start()
        atexit.register(self.end, _AT_EXIT_SECONDS)

    def end(self, timeout: float) -> None:
        """Let the child judge a last time and print its findings; kill it after ``timeout`` s.

        In a notebook, show the report that it has made.
        """
        if os.getpid() != self._pid:
            return
        atexit.unregister(self.end)
        with suppress(OSError, ValueError):  # it has died, or was ended before
            self._stdin.write("end\n")
            self._stdin.flush()
        self._thread.join(timeout)
        self.drop()
        if self._page:
            with Guard(log_error, "the report is not shown"):
                _show(self._page)

    def drop(self) -> None:
        """End the child at once: the run is another hook's from now on."""
        atexit.unregister(self.end)
        self._child.kill()
        self._child.wait()
        for pipe in (self._stdin, self._stdout):
            with suppress(OSError, ValueError):
                pipe.close()

    def _read(self) -> None:
        decoder = msgspec.json.Decoder(_Line)
        with suppress(OSError, ValueError):  # the pipe was closed
            for text in self._stdout:
                with Guard(log_error, "a line of the judge is lost"):
                    self._pass_on(decoder.decode(text))

    def _pass_on(self, line: _Line) -> None:
        if line.say:
            logger.warning("%s", line.say)
        if line.stop and self._on_stop is not None:
            self.stopped_by = line.stop
            self._on_stop()
        self._page = line.page or self._page
        if line.change is not None and self._change is not None:
            self._change(line.change)


def _in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


def _show(html: str) -> None:
    from IPython.display import display  # only where a notebook has loaded it

    display({"text/html": html, "text/plain": "the report of the run"}, raw=True)


def _path() -> str:
    """PYTHONPATH with which the child finds the package as this process has."""
    package = Path(str(sys.modules["tocsin"].__file__))
    places = (str(package.parents[1]), os.environ.get("PYTHONPATH", ""))
    return os.pathsep.join(filter(None, places))

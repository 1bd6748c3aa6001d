"""Runs a measuring process: sends the name of a variant, gets a line of JSON."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[1]
ROOMS = os.pathsep.join(str(ROOT / room) for room in (".", "rules_layer", "hooks"))
# Freed memory returns to the system at once, so that a peak is the memory in use.
_EXACT_MEMORY = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": "65536",
    "MALLOC_TRIM_THRESHOLD_": "65536",
}

Answer = dict[str, Any]


class Failed(Exception):
    """The process has ended without an answer; the message has its last lines."""


class Process:
    """A measuring process; what it prints besides its answers goes into ``log``."""

    def __init__(
        self, python: Path, module: str, *arguments: str, log: Path, exact_memory: bool = False
    ) -> None:
        self._log = log
        more = {"PYTHONPATH": ROOMS, **(_EXACT_MEMORY if exact_memory else {})}
        with log.open("w") as errors:
            try:
                self._process = subprocess.Popen(
                    [str(python), "-m", f"benchmarks.{module}", *arguments],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                    cwd=ROOT,
                    env={**os.environ, **more},
                )
            except OSError as error:
                raise Failed(str(error)) from error

    def answer(self) -> Answer:
        """The next line of JSON among those that libraries print. Raises Failed without one."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                found: Answer = json.loads(line)
                return found
        self._process.wait()
        words = self._log.read_text(errors="replace").strip().splitlines()
        raise Failed(words[-1] if words else f"it ended with {self._process.returncode}")

    def ask(self, question: str) -> Answer:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # the answer says why
            self._process.stdin.write(f"{question}\n")
            self._process.stdin.flush()
        return self.answer()

    def last(self) -> Answer:
        """Closes its input and returns its last answer."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self.answer()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            with suppress(BrokenPipeError):  # of a request that was not read
                if stream is not None:
                    stream.close()
        self._process.wait()

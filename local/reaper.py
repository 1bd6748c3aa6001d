"""Processes and temporary folders that never outlive the process that asked for them.

A helper process hears through a pipe what there is to tidy up. When the pipe closes, at the end of
the ``with`` block or because this process died, in whatever way, the helper kills what still runs
and removes the folders.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import IO, Any


class Reaper:
    """Starts processes, each as the leader of its own group, and makes temporary folders.

    A context manager; at its end nothing that was started still runs.
    """

    def __init__(self) -> None:
        ours, its = _pipe()
        with its:
            self._helper = subprocess.Popen(
                [sys.executable, "-I", "-S", __file__], stdin=its, start_new_session=True
            )
        self._pipe = ours
        self._lock = Lock()

    def __enter__(self) -> Reaper:
        return self

    def __exit__(self, *_: object) -> None:
        self._pipe.close()
        self._helper.wait()

    def folder(self, name: str) -> Path:
        """A new temporary folder, readable by its owner alone."""
        path = tempfile.mkdtemp(prefix=f"tocsin-{name}-")
        self._tell(folder=path)
        return Path(path)

    def start(
        self,
        command: Sequence[str | Path],
        *,
        environment: Mapping[str, str],
        folder: Path,
        log: Path,
        sockets: Collection[int] = (),
    ) -> subprocess.Popen[bytes]:
        """Starts a command in ``folder``, with its output in ``log``. OSError if it cannot."""
        with log.open("ab") as output:
            process = subprocess.Popen(
                command,
                env=dict(environment),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=tuple(sockets),
                start_new_session=True,
            )
        self._tell(group=process.pid)
        return process

    def stop(self, process: subprocess.Popen[bytes], grace: float = 5.0) -> int:
        """SIGTERM to the process, SIGKILL to its group after ``grace`` seconds; the exit code."""
        if process.poll() is None:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(grace)
        return self.finish(process)

    def finish(self, process: subprocess.Popen[bytes]) -> int:
        """Kills what is left of a process and its group, and forgets it; the exit code."""
        _kill_group(process.pid)
        code = process.wait()
        self._tell(ended=process.pid)
        return code

    def _tell(self, **what: Any) -> None:
        # Once the pipe is closed all is tidied up, and there is nobody to tell.
        with self._lock, suppress(BrokenPipeError, ValueError):
            self._pipe.write(json.dumps(what).encode() + b"\n")


def _pipe() -> tuple[IO[bytes], IO[bytes]]:
    """The end to write to and the end to read from, both closed in child processes by default."""
    read, write = os.pipe()
    return os.fdopen(write, "wb", buffering=0), os.fdopen(read, "rb")


def _kill_group(group: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def _tidy_up() -> None:
    """What the helper does: listens until the pipe closes, then leaves nothing behind."""
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    groups: set[int] = set()
    folders: set[str] = set()
    for line in sys.stdin:
        match json.loads(line):
            case {"group": int(group)}:
                groups.add(group)
            case {"ended": int(group)}:
                groups.discard(group)
            case {"folder": str(folder)}:
                folders.add(folder)
    for group in groups:
        _kill_group(group)
    for folder in folders:
        _remove(folder)


def _remove(folder: str) -> None:
    """Again and again for a while: what has just been killed may still be writing."""
    for _ in range(50):
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.lexists(folder):
            return
        time.sleep(0.02)


if __name__ == "__main__":
    _tidy_up()

"""Child processes and temporary folders that end with this process.

A helper process learns of them through a pipe. When the pipe closes, at the end of the ``with``
block or because this process died, the helper kills the processes and removes the folders.
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

    A context manager; its end kills every process and removes every folder.

    patient: whether the end waits for the folders, which may take half a minute, or leaves them to
        the helper.
    """

    def __init__(self, *, patient: bool = True) -> None:
        ours, its = _pipe()
        with its:
            self._helper = subprocess.Popen(
                [sys.executable, "-I", "-S", __file__],
                stdin=its,
                stdout=subprocess.PIPE,
                start_new_session=True,
            )
        self._patient = patient
        self._pipe = ours
        self._lock = Lock()

    def __enter__(self) -> Reaper:
        return self

    def __exit__(self, *_: object) -> None:
        self._pipe.close()
        with self._helper.stdout as killed:  # type: ignore[union-attr]
            killed.read()  # closed when the processes are killed
        if self._patient:
            self._helper.wait()

    def folder(self, name: str) -> Path:
        """A new temporary folder, readable by its owner alone."""
        path = tempfile.mkdtemp(prefix=f"tocsin-{name}-")
        self._inform_helper(folder=path)
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
        """Start a command in ``folder``, with its output in ``log``. Raises OSError."""
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
        self._inform_helper(group=process.pid)
        return process

    def stop(self, process: subprocess.Popen[bytes], grace: float = 5.0) -> int:
        """Send SIGTERM, then SIGKILL after ``grace`` seconds. Returns the exit code."""
        if process.poll() is None:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(grace)
        return self.finish(process)

    def finish(self, process: subprocess.Popen[bytes]) -> int:
        """Kills a process and its group if they still run. Returns the exit code."""
        _kill_group(process.pid)
        code = process.wait()
        self._inform_helper(ended=process.pid)
        return code

    def _inform_helper(self, **what: Any) -> None:
        # The helper ends when the pipe is closed.
        with self._lock, suppress(BrokenPipeError, ValueError):
            self._pipe.write(json.dumps(what).encode() + b"\n")


def _pipe() -> tuple[IO[bytes], IO[bytes]]:
    """The write end and the read end; child processes inherit neither."""
    read, write = os.pipe()
    return os.fdopen(write, "wb", buffering=0), os.fdopen(read, "rb")


def _kill_group(group: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def _tidy_up() -> None:
    """The helper: reads until the pipe closes, then kills processes and removes folders."""
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
    os.close(sys.stdout.fileno())
    for folder in folders:
        _remove(folder)


def _remove(folder: str) -> None:
    """Retries for a second: a process that was just killed may still be writing."""
    for _ in range(50):
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.lexists(folder):
            return
        time.sleep(0.02)


if __name__ == "__main__":
    _tidy_up()

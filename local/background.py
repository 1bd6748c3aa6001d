"""The embedded AWS in the background: `tocsin local up` and `tocsin local down`.

A separate process runs it and holds a lock. The locked file contains its process id.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

from local.environment import inherited
from local.error import LocalError
from local.lock import holder, locked
from local.paths import CACHE, ROOT
from local.stack import local_aws

UP_DEADLINE = 300.0  # seconds, installation included
DOWN_DEADLINES = {signal.SIGTERM: 30.0, signal.SIGKILL: 60.0}


def up(context: Mapping[str, Any] | None = None, folder: Path = CACHE) -> dict[str, Any]:
    """Start the embedded AWS unless it is up. Returns what `tocsin local up --json` prints.

    ``context`` holds CDK options for the deployment. They are ignored if it is up already.
    """
    folder.mkdir(parents=True, exist_ok=True)
    # Of two commands at the same time, one starts it and the other waits.
    with locked(folder / "starting.lock"):
        if _holder(folder) is None:
            _start(context or {}, folder)
        elif not _wait_until(_state(folder).exists, UP_DEADLINE):
            raise LocalError(
                "the embedded AWS has been starting for too long: run `tocsin local down`"
            )
        answer: dict[str, Any] = json.loads(_state(folder).read_text())
        return answer


def resources(folder: Path = CACHE) -> dict[str, Any]:
    """The answer of ``up`` for the embedded AWS that is up. Raises LocalError if none is."""
    if _holder(folder) is None or not _state(folder).exists():
        raise LocalError("the embedded AWS is not running: run `tocsin local up`")
    answer: dict[str, Any] = json.loads(_state(folder).read_text())
    return answer


def log_lines(folder: Path = CACHE) -> list[str]:
    """The log of the embedded AWS since it was last started."""
    path = folder / "up.log"
    return path.read_text(errors="replace").splitlines() if path.exists() else []


def down(folder: Path = CACHE) -> bool:
    """Stop the embedded AWS and wait for its end. Returns whether it was up."""
    pid = _holder(folder)
    if pid is None:
        _state(folder).unlink(missing_ok=True)
        return False
    endpoint = _endpoint(folder)
    for request, deadline in DOWN_DEADLINES.items():
        os.kill(pid, request)
        if _wait_until(lambda: _holder(folder) is None and not _answers(endpoint), deadline):
            return True
    raise LocalError(f"process {pid} does not stop, or {endpoint} still answers")


def run(folder: Path, context: Mapping[str, Any]) -> None:
    """Run the embedded AWS in this process until SIGTERM or SIGINT."""
    signal.signal(signal.SIGTERM, _exit)
    state = _state(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with locked(_lock(folder), wait=2.0) as lock:
        lock.truncate(0)
        print(os.getpid(), file=lock, flush=True)
        try:
            with local_aws(context) as aws:
                draft = state.with_suffix(".tmp")
                draft.write_text(json.dumps(aws.describe()))
                draft.replace(state)
                while True:
                    signal.pause()
        finally:
            state.unlink(missing_ok=True)


def _start(context: Mapping[str, Any], folder: Path) -> None:
    log = folder / "up.log"
    _state(folder).unlink(missing_ok=True)
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "local", str(folder), json.dumps(context)],
            cwd=ROOT,
            env=inherited(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    _wait_until(lambda: _state(folder).exists() or process.poll() is not None, UP_DEADLINE)
    if not _state(folder).exists():
        process.terminate()
        lines = log.read_text(errors="replace").strip().splitlines() or ["its log is empty"]
        raise LocalError(f"the embedded AWS does not start: {lines[-1]} (see {log})")


def _state(folder: Path) -> Path:
    return folder / "up.json"


def _endpoint(folder: Path) -> str | None:
    try:
        return str(json.loads(_state(folder).read_text())["endpoint"])
    except FileNotFoundError:  # it is still starting
        return None


def _answers(endpoint: str | None) -> bool:
    if endpoint is None:
        return False
    address = urlsplit(endpoint)
    with socket.socket() as probe:
        return probe.connect_ex((address.hostname or "", address.port or 0)) == 0


def _wait_until(condition: Callable[[], bool], timeout: float) -> bool:
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False


def _holder(folder: Path) -> int | None:
    """The id of the process that runs the embedded AWS."""
    written = holder(_lock(folder))
    return int(written) if written else None


def _lock(folder: Path) -> Path:
    return folder / "up.lock"


def _exit(*_: object) -> NoReturn:
    sys.exit(0)

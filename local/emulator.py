"""Runs MiniStack, the emulator of AWS, as a process on a loopback port."""

from __future__ import annotations

import os
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from socket import socket

from local.error import LocalError
from local.port import url
from local.reaper import Reaper

REGION = "us-east-1"
ACCOUNT = "000000000000"
DEADLINE = 300.0  # seconds until it is healthy

_SERVER = Path(__file__).with_name("ministack_server.py")


@dataclass(frozen=True)
class Emulator:
    """A running emulator: its address, its process id, the file with its log."""

    endpoint: str
    pid: int
    log: Path


@contextmanager
def emulator(
    reaper: Reaper, python: Path, port: socket, environment: Mapping[str, str] | None = None
) -> Iterator[Emulator]:
    """Run MiniStack with the interpreter ``python`` on ``port``, and close the port.

    Its Lambda functions inherit ``environment``. Raises LocalError with the last lines of its log.
    """
    folder = reaper.folder("aws")
    log = folder / "emulator.log"
    endpoint = url(port)
    with port:
        process = reaper.start(
            [
                *(python, "-I", _SERVER, "ministack.app:app", "--bind", f"fd://{port.fileno()}"),
                *("--workers", "0", "--keep-alive", "75"),
            ],
            environment=_settings(folder, port) | dict(environment or {}),
            folder=folder,
            log=log,
            sockets=[port.fileno()],
        )
    try:
        _wait_until_healthy(endpoint, process, log)
        yield Emulator(endpoint, process.pid, log)
    finally:
        reaper.finish(process)  # with its functions; by itself it takes seconds, and keeps nothing


def _settings(folder: Path, port: socket) -> dict[str, str]:
    """Settings with which it listens on one port and writes into ``folder`` only."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "STATE_DIR": str(folder / "state"),
        "S3_DATA_DIR": str(folder / "s3"),
        "BIND_HOST": "127.0.0.1",
        "MINISTACK_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port.getsockname()[1]),
        "IOT_MTLS_ENABLED": "0",
        "SFTP_ENABLED": "0",
        "LAMBDA_EXECUTOR": "local",
        "DOCKER_HOST": f"unix://{folder}/no-docker",
        "MINISTACK_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def _wait_until_healthy(endpoint: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + DEADLINE
    while process.poll() is None and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"{endpoint}/_ministack/health", timeout=5):  # noqa: S310
                return
        except OSError:
            time.sleep(0.02)
    state = "ended" if process.poll() is not None else f"was not healthy after {DEADLINE:.0f} s"
    last = "; ".join(log.read_text(errors="replace").strip().splitlines()[-3:])
    raise LocalError(f"the emulator {state}: {last or 'it wrote no log'}")

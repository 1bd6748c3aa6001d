"""What is not a regular file, and a test that does not wait for it for ever."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import chdir
from pathlib import Path
from threading import Thread
from typing import TypeVar

from tests.waiting import PATIENCE

T = TypeVar("T")


def _socket(path: Path) -> None:
    with chdir(path.parent), socket.socket(socket.AF_UNIX) as made:  # a long path cannot be bound
        made.bind(path.name)


def _folder(path: Path) -> None:
    path.mkdir()
    (path / "file").write_bytes(b"{}")


def _link_to_a_pipe(path: Path) -> None:
    pipe = path.with_name("pipe")
    os.mkfifo(pipe)
    path.symlink_to(pipe)


IRREGULAR: dict[str, Callable[[Path], None]] = {
    "a named pipe": os.mkfifo,
    "a folder": _folder,
    "a socket": _socket,
}
"""Makes something of that kind at a path."""

PIPES: tuple[Callable[[Path], None], ...] = (os.mkfifo, _link_to_a_pipe)


def in_time(work: Callable[[], T], seconds: float = PATIENCE) -> T:
    """What ``work`` returns. Raises TimeoutError if it takes longer; then it is left alone."""
    answer = Future[T]()

    def run() -> None:
        try:
            answer.set_result(work())
        except BaseException as error:  # noqa: BLE001 - for the test to see
            answer.set_exception(error)

    Thread(target=run, daemon=True).start()
    return answer.result(timeout=seconds)

"""A free port on the loopback interface, bound so that no other process can take it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loopback_port() -> Iterator[socket.socket]:
    """A bound socket that does not listen yet. The server gets the socket, not the number."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as bound:
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        bound.bind(("127.0.0.1", 0))
        yield bound


def url(bound: socket.socket) -> str:
    """The URL of a server on this socket."""
    return f"http://127.0.0.1:{bound.getsockname()[1]}"

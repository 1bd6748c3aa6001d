from __future__ import annotations

import socket
from urllib.parse import urlsplit

import pytest

from local.port import loopback_port, url


def test_the_port_is_taken_before_anybody_listens() -> None:
    with loopback_port() as port, socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(port.getsockname())


def test_the_port_is_on_loopback_only_and_nobody_answers_yet() -> None:
    with loopback_port() as port, socket.socket() as caller:
        address = urlsplit(url(port))
        assert port.getsockname() == ("127.0.0.1", address.port)
        with pytest.raises(ConnectionRefusedError):
            caller.connect(("127.0.0.1", address.port))


def test_two_ports_differ() -> None:
    with loopback_port() as one, loopback_port() as other:
        assert url(one) != url(other)

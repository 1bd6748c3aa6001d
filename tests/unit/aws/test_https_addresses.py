from __future__ import annotations

import socket
import threading
from typing import Any

import pytest
from tocsin.aws.https import is_public, resolve

from tests.waiting import PATIENCE


@pytest.mark.parametrize(
    "address",
    [
        "93.184.215.14",
        "8.8.8.8",
        "172.32.0.1",
        "2606:2800:21f:cb07:6820:80da:af6b:8b2c",
        "::ffff:8.8.8.8",
        "64:ff9b::808:808",
        "2002:808:808::1",
    ],
)
def test_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        "10.0.0.1",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "127.0.0.1",
        "127.255.255.254",
        "169.254.169.254",  # instance metadata
        "169.254.170.2",  # credentials of a container
        "100.64.0.1",
        "0.0.0.0",  # noqa: S104 - an address to refuse
        "0.1.2.3",
        "192.0.2.1",
        "198.18.0.1",
        "203.0.113.1",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::10.0.0.1",
        "::ffff:10.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "::ffff:224.0.0.1",
        "64:ff9b::a00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::808:808",  # a network's own translation
        "2002:a00:1::1",
        "2002:7f00:1::1",
        "2001:0:808:808::1",  # Teredo
        "2001:db8::1",
        "100::1",
        "fc00::1",
        "fd00:ec2::254",  # instance metadata
        "fe80::1",
        "fe80::1%eth0",
        "fec0::1",
        "ff02::1",
    ],
)
def test_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("text", ["", "localhost", "10.0.0", "1.2.3.4.5"])
def test_no_address(text: str) -> None:
    with pytest.raises(ValueError, match="does not appear to be"):
        is_public(text)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1", "0x7f.1", "2130706433"])
def test_resolves_however_an_address_is_written(host: str) -> None:
    assert resolve(host, 443, PATIENCE) == ["127.0.0.1"]


def test_a_name_that_nobody_has_is_an_oserror() -> None:
    with pytest.raises(OSError, match=r".+"):
        resolve("no-such-host.invalid", 443, 5)


def test_a_resolver_that_hangs_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    let_go = threading.Event()

    def hangs(*_: Any, **__: Any) -> list[Any]:
        let_go.wait(PATIENCE)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", hangs)
    try:
        with pytest.raises(TimeoutError):
            resolve("hooks.example.com", 443, 0.01)
    finally:
        let_go.set()

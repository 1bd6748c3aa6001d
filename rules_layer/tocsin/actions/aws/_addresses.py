"""Where a host's name leads, and whether that is the public internet."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

_UNICAST = IPv6Network("2000::/3")  # all that is global lies here, but for what leads to IPv4
_NAT64 = IPv6Network("64:ff9b::/96")


def is_public(address: str) -> bool:
    """Whether packets to ``address`` leave for the internet: no private, local, shared, reserved
    or multicast address, and no IPv6 one that only wraps such an IPv4 one. ValueError if it is no
    address.
    """
    found = ip_address(address)
    if isinstance(found, IPv6Address):
        inner = _inner(found)
        if inner is None:
            return found in _UNICAST and found.is_global
        found = inner
    return found.is_global and not found.is_multicast


def _inner(address: IPv6Address) -> IPv4Address | None:
    """The IPv4 address that packets to ``address`` end up at, where there is one."""
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour


def resolve(host: str, port: int, seconds: float) -> list[str]:
    """All addresses that DNS gives, each once. OSError if none, TimeoutError after ``seconds``."""
    pool = ThreadPoolExecutor(1)  # the resolver takes no time limit of its own
    try:
        asked = pool.submit(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(info[4][0]) for info in asked.result(seconds)))
    finally:
        pool.shutdown(wait=False)

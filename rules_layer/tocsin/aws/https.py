"""POST to a host on the public internet, by HTTPS, within a time limit.

The connection goes to the very address that was checked, and TLS makes sure of the host's name.
No proxy, no cookie, no credentials.
"""

from __future__ import annotations

import io
import socket
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Any
from urllib.parse import urljoin, urlsplit

from tocsin.actions.webhook import Rejected
from tocsin.words import clean

_MOST_REDIRECTS = 3
_MOST_ANSWER = 1024  # bytes read of an answer's body
_LATER = frozenset({408, 429})  # answers that ask for another try, beside all from 500 on
_UNICAST = IPv6Network("2000::/3")  # all that is global lies here, but for what leads to IPv4
_NAT64 = IPv6Network("64:ff9b::/96")


class NotDelivered(Exception):
    """The event may not have arrived, and a retry may succeed; the text has the reason."""


@dataclass(frozen=True)
class Destination:
    """The target of a URL. Messages name the host only: the path may be a secret."""

    url: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == 443 else f"{host}:{self.port}"


def destination(url: str, base: str = "") -> Destination:
    """Read a URL, which may be relative to ``base``. Rejected if nothing is sent to such a one."""
    try:
        url = urljoin(base, url)
        parts = urlsplit(url)
        host, port = (parts.hostname or "").encode("idna").decode(), parts.port
    except ValueError:
        raise Rejected("its URL cannot be read") from None
    if not (url.isascii() and url.isprintable() and " " not in url):
        raise Rejected("its URL has characters other than printable ASCII, or a space")
    if parts.scheme != "https" or not host:
        raise Rejected("its URL must begin with https:// and name a host")
    if "@" in parts.netloc:
        raise Rejected("its URL contains a user name or a password, which are never sent")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Destination(url, host, 443 if port is None else port, path)


def is_public(address: str) -> bool:
    """Return whether packets to ``address`` leave for the internet: no private, local, shared,
    reserved or multicast address, and no IPv6 one that only wraps such an IPv4 one. ValueError if
    it is not an address.
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
    """Return all addresses that DNS gives, each once. OSError if none, TimeoutError after
    ``seconds``."""
    pool = ThreadPoolExecutor(1)  # the resolver takes no time limit of its own
    try:
        asked = pool.submit(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(info[4][0]) for info in asked.result(seconds)))
    finally:
        pool.shutdown(wait=False)


@dataclass(frozen=True)
class Https:
    """Posts. ``seconds`` are for all there is to it: DNS, redirects and a second try."""

    resolve: Callable[[str, int, float], Sequence[str]] = resolve
    allowed: Callable[[str], bool] = is_public
    context: Callable[[], ssl.SSLContext] = ssl.create_default_context
    seconds: float = 10.0

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> None:
        """Done when the host answers 2xx. Rejected when it never will, NotDelivered when it may."""
        ends = time.monotonic() + self.seconds
        to = destination(url)
        for _ in range(_MOST_REDIRECTS + 1):
            try:
                answer = self._answer(to, body, headers, ends)
            except (OSError, HTTPException) as error:
                why = clean(str(error) or type(error).__name__, 200)
                raise NotDelivered(f"no answer from {to.host}: {why}") from None
            if answer.status not in (307, 308) or not answer.location:
                return _judge(to.host, answer)
            to = destination(answer.location, to.url)
        raise Rejected(
            f"{to.host} redirects too often: at most {_MOST_REDIRECTS} redirects are followed"
        )

    def _answer(
        self, to: Destination, body: bytes, headers: Mapping[str, str], ends: float
    ) -> _Answer:
        try:
            return self._ask(to, body, headers, ends)
        except ConnectionError:  # a server that restarts, mostly
            return self._ask(to, body, headers, ends)

    def _ask(
        self, to: Destination, body: bytes, headers: Mapping[str, str], ends: float
    ) -> _Answer:
        with self._connect(to, ends) as sock:
            wire: Any = _InTime(sock, ends)  # all of a socket that http.client uses
            request = HTTPConnection(to.host, to.port)
            request.sock = wire
            own = {"Host": to.authority, "Connection": "close"}
            request.request("POST", to.path, body, {**headers, **own})
            response = HTTPResponse(wire, method="POST")
            response.begin()
            return _Answer(response.status, response.headers["Location"] or "", _words(response))

    def _connect(self, to: Destination, ends: float) -> ssl.SSLSocket:
        addresses = self.resolve(to.host, to.port, _left(ends))
        for address in addresses:
            if not self.allowed(address):
                raise Rejected(
                    f"{to.host} resolves to {address}, which is not on the public internet"
                )
        context = self.context()
        error: OSError = OSError("it has no address")
        for position, address in enumerate(addresses):
            patience = _left(ends) / (len(addresses) - position)
            try:
                sock = socket.create_connection((address, to.port), patience)
            except OSError as failed:
                error = failed
                continue
            sock.settimeout(_left(ends))
            return context.wrap_socket(sock, server_hostname=to.host)
        raise error


@dataclass(frozen=True)
class _Answer:
    status: int
    location: str
    words: str


def _judge(host: str, answer: _Answer) -> None:
    """Return if the response confirms the event. Raises otherwise."""
    status = answer.status
    if 200 <= status < 300:
        return
    said = f"{host} answered {status}" + (f" ({answer.words})" if answer.words else "")
    if status in _LATER or not 300 <= status < 500:
        raise NotDelivered(said)
    if status < 400:
        raise Rejected(f"{said}: only redirects 307 and 308 are followed; give the final URL")
    raise Rejected(said)


def _words(response: HTTPResponse) -> str:
    """Return the reason in the answer for a refusal, as far as it arrives; a success may be
    empty."""
    if response.status < 400:
        return ""
    try:
        return clean(response.read(_MOST_ANSWER).decode("utf-8", "replace"), 100)
    except (OSError, HTTPException):
        return ""


def _left(ends: float) -> float:
    """The seconds that are left. TimeoutError if there are none."""
    left = ends - time.monotonic()
    if left <= 0:
        raise TimeoutError("it took too long")
    return left


class _InTime(io.RawIOBase):
    """A socket that waits until ``ends`` at most, however slowly the other side goes."""

    def __init__(self, sock: ssl.SSLSocket, ends: float) -> None:
        super().__init__()
        self._sock = sock
        self._ends = ends

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._sock.settimeout(_left(self._ends))
        return self._sock.recv_into(buffer)

    def sendall(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            self._sock.settimeout(_left(self._ends))
            rest = rest[self._sock.send(rest) :]

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(self)

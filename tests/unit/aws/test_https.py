"""Posts to a real TLS server on loopback, which the check of addresses is told to let pass."""

from __future__ import annotations

import contextlib
import datetime
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tocsin.actions.webhook import Rejected
from tocsin.aws.https import Https, NotDelivered, destination

from tests.waiting import PATIENCE

HOST = "hooks.example.com"
BODY = b'{"a": 1}'
Reply = Callable[[ssl.SSLSocket], None]


def says(status: int, *lines: str, body: bytes = b"") -> Reply:
    head = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(body)}", *lines, "", ""]
    return lambda sock: sock.sendall("\r\n".join(head).encode() + body)


def hangs_up(_: ssl.SSLSocket) -> None:
    """Closes without a word."""


def redirects(location: str, status: int = 307) -> Reply:
    return says(status, f"Location: {location}")


@dataclass
class Server:
    """Answers each connection with the next of ``replies``; ``over`` is set when the test is."""

    listener: socket.socket
    context: ssl.SSLContext
    replies: list[Reply] = field(default_factory=list)
    requests: list[bytes] = field(default_factory=list)
    names: list[str | None] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def port(self) -> int:
        return int(self.listener.getsockname()[1])

    def serve(self) -> None:
        while not self.over.is_set():
            # What the client breaks off is no fault of the server.
            with contextlib.suppress(OSError):
                raw, _ = self.listener.accept()
                raw.settimeout(PATIENCE)
                with self.context.wrap_socket(raw, server_side=True) as sock:
                    self.requests.append(read_request(sock))
                    self.replies.pop(0)(sock)


def read_request(sock: ssl.SSLSocket) -> bytes:
    data = b""
    while not data.endswith(BODY):
        chunk = sock.recv(4096)
        if not chunk:
            break
        data += chunk
    return data


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for HOST and for no other, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, HOST)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path_factory.mktemp("tls") / "both.pem"
    file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + made.public_bytes(serialization.Encoding.PEM)
    )
    return file


@pytest.fixture
def server(certificate: Path) -> Iterator[Server]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        made = Server(listener, context)
        context.sni_callback = lambda _sock, name, _context: made.names.append(name)
        thread = threading.Thread(target=made.serve, daemon=True)
        thread.start()
        yield made
        made.over.set()
        with contextlib.suppress(OSError), socket.create_connection(listener.getsockname(), 5):
            pass  # wakes it
        thread.join(PATIENCE)


@pytest.fixture
def client(certificate: Path) -> Https:
    return Https(
        resolve=lambda host, _port, _seconds: ["127.0.0.1"],
        allowed=lambda address: address == "127.0.0.1",
        context=lambda: ssl.create_default_context(cafile=certificate),
        seconds=PATIENCE,
    )


def url(server: Server, path: str = "/services/T0/B0?x=1", host: str = HOST) -> str:
    return f"https://{host}:{server.port}{path}"


def test_posts(server: Server, client: Https, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    server.replies = [says(200)]
    client.post(url(server), BODY, {"X-Tocsin-Id": "k1"})
    [request] = server.requests
    head, _, body = request.partition(b"\r\n\r\n")
    first, *headers = head.decode().split("\r\n")
    assert first == "POST /services/T0/B0?x=1 HTTP/1.1"
    assert {f"Host: {HOST}:{server.port}", "X-Tocsin-Id: k1", "Content-Length: 8"} <= set(headers)
    assert body == BODY
    assert server.names == [HOST]


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_arrived(server: Server, client: Https, status: int) -> None:
    server.replies = [says(status)]
    client.post(url(server), BODY, {})
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 599, 103, 600])
def test_to_be_tried_again(server: Server, client: Https, status: int) -> None:
    server.replies = [says(status)]
    with pytest.raises(NotDelivered, match=f"{HOST} answered {status}"):
        client.post(url(server), BODY, {})


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 301, 302, 303, 304, 307, 308])
def test_refused_for_good(server: Server, client: Https, status: int) -> None:
    server.replies = [says(status)]
    with pytest.raises(Rejected, match=f"{HOST} answered {status}"):
        client.post(url(server), BODY, {})


def test_a_refusal_tells_what_the_endpoint_says(server: Server, client: Https) -> None:
    server.replies = [says(400, body=b"invalid_\x1bpayload\xff")]
    with pytest.raises(Rejected, match=r"answered 400 \(invalid_ payload.\)$") as told:
        client.post(url(server), BODY, {})
    assert "services" not in str(told.value)


def test_a_huge_answer_is_not_read(server: Server, client: Https) -> None:
    def pours(sock: ssl.SSLSocket) -> None:
        sock.sendall(b"HTTP/1.1 404 No\r\nContent-Length: 99999999999\r\n\r\n")
        while not server.over.is_set():
            sock.sendall(b"x" * 65536)

    server.replies = [pours]
    with pytest.raises(Rejected, match=r"\(x{98}\.\.\)$"):
        client.post(url(server), BODY, {})


@pytest.mark.parametrize("line", [b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000, b"SSH-2.0-\x1b\r\n"])
def test_nonsense_is_no_answer(server: Server, client: Https, line: bytes) -> None:
    server.replies = [lambda sock: sock.sendall(line)]
    with pytest.raises(NotDelivered, match=f"no answer from {HOST}") as told:
        client.post(url(server), BODY, {})
    assert len(str(told.value)) < 300
    assert str(told.value).isprintable()


def test_a_connection_that_breaks_is_tried_once_more(server: Server, client: Https) -> None:
    server.replies = [hangs_up, says(200)]
    client.post(url(server), BODY, {})
    assert len(server.requests) == 2


def test_and_not_a_third_time(server: Server, client: Https) -> None:
    server.replies = [hangs_up, hangs_up, says(200)]
    with pytest.raises(NotDelivered):
        client.post(url(server), BODY, {})
    assert len(server.requests) == 2


@pytest.mark.parametrize("drop", [b"", b"x"], ids=["silent", "dripping"])
def test_time_is_up(server: Server, client: Https, drop: bytes) -> None:
    def drips(sock: ssl.SSLSocket) -> None:
        sock.sendall(b"HTTP/1.1 200 OK\r\nX: ")
        while not server.over.wait(0.02):
            sock.sendall(drop)

    server.replies = [drips]
    hurried = Https(client.resolve, client.allowed, client.context, seconds=0.5)
    with pytest.raises(NotDelivered, match=r"time|too long"):
        hurried.post(url(server), BODY, {})


@pytest.mark.parametrize("status", [307, 308])
def test_follows_redirects(server: Server, client: Https, status: int) -> None:
    there = redirects("/there", status)
    server.replies = [there, there, redirects(url(server, "/at/last"), status), says(200)]
    client.post(url(server), BODY, {})
    firsts = [request.split(b" ")[1] for request in server.requests]
    assert firsts == [b"/services/T0/B0?x=1", b"/there", b"/there", b"/at/last"]
    assert all(request.endswith(BODY) for request in server.requests)


@pytest.mark.parametrize(
    ("location", "why"),
    [
        ("http://hooks.example.com/", "https://"),
        ("https://inner.example.com/", "not on the public internet"),
        ("https://me:secret@hooks.example.com/", "password"),
        ("//[", "cannot be read"),
        ("file:///etc/passwd", "https://"),
    ],
)
def test_redirects_are_checked_anew(server: Server, client: Https, location: str, why: str) -> None:
    hosts = {HOST: ["127.0.0.1"], "inner.example.com": ["10.0.0.1"]}
    server.replies = [redirects(location)]
    checking = Https(lambda host, *_: hosts[host], client.allowed, client.context)
    with pytest.raises(Rejected, match=why):
        checking.post(url(server), BODY, {})
    assert len(server.requests) == 1


def test_does_not_redirect_for_ever(server: Server, client: Https) -> None:
    server.replies = [redirects("/again")] * 9
    with pytest.raises(Rejected, match="redirects too often"):
        client.post(url(server), BODY, {})
    assert len(server.requests) == 4


@pytest.mark.parametrize("addresses", [["127.0.0.2", "127.0.0.1"], ["127.0.0.1", "127.0.0.2"]])
def test_one_address_that_answers_is_enough(
    server: Server, client: Https, addresses: list[str]
) -> None:
    server.replies = [says(200)]
    Https(lambda *_: addresses, lambda _: True, client.context).post(url(server), BODY, {})
    assert len(server.requests) == 1


def test_the_name_must_be_the_certificates(server: Server, client: Https) -> None:
    with pytest.raises(NotDelivered, match="certificate verify failed"):
        client.post(url(server, host="other.example.com"), BODY, {})
    assert server.requests == []


def test_the_certificate_must_be_trusted(server: Server, client: Https) -> None:
    with pytest.raises(NotDelivered, match="certificate verify failed"):
        Https(client.resolve, client.allowed).post(url(server), BODY, {})
    assert server.requests == []


def test_an_address_that_is_nobodys() -> None:
    with pytest.raises(NotDelivered, match="no address"):
        Https(lambda *_: []).post("https://hooks.example.com", BODY, {})


@pytest.mark.parametrize(
    "addresses",
    [
        ["10.0.0.1"],
        ["93.184.215.14", "10.0.0.1"],
        ["93.184.215.14", "::ffff:169.254.169.254"],
        ["93.184.215.14", "fe80::1%eth0"],
    ],
)
def test_one_private_address_is_too_many(
    addresses: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "create_connection", lambda *_: pytest.fail("it connected"))
    with pytest.raises(Rejected, match="not on the public internet"):
        Https(lambda *_: addresses).post("https://hooks.example.com/", BODY, {})


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "127.1",
        "2130706433",
        "0x7f000001",
        "[::1]",
        "[::ffff:7f00:1]",
        "169.254.169.254",
        "[64:ff9b::a9fe:a9fe]",
    ],
)
def test_no_way_to_write_a_local_address_is_missed(server: Server, host: str) -> None:
    with pytest.raises(Rejected, match="not on the public internet"):
        Https().post(url(server, host=host), BODY, {})
    assert server.requests == []


@pytest.mark.parametrize(
    ("text", "authority", "port", "path"),
    [
        ("https://a.example.com", "a.example.com", 443, "/"),
        ("https://A.example.com:443/x?y=z#part", "a.example.com", 443, "/x?y=z"),
        ("https://a.example.com:8443?q", "a.example.com:8443", 8443, "/?q"),
        ("HTTPS://[2606:2800::1]:99/", "[2606:2800::1]:99", 99, "/"),
    ],
)
def test_reads_urls(text: str, authority: str, port: int, path: str) -> None:
    to = destination(text)
    assert (to.authority, to.port, to.path) == (authority, port, path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hooks.example.com/x",
        "http://hooks.example.com/",
        "https://",
        "https:///services/T0",
        "https://me@hooks.example.com/",
        "https://me:you@hooks.example.com/",
        "https://@hooks.example.com/",
        "https://hooks.example.com:http/",
        "https://hooks.example.com:99999/",
        "https://[::1",
        "https://a..example.com/",
        f"https://{'a' * 64}.example.com/",
        "https://hooks.example.com/a b",
        "https://hooks.example.com/a\r\nHost: x",
        "https://hooks.example.com/\u00fc",
        "https://\u00fc.example.com/",
        "ftp://hooks.example.com/",
    ],
)
def test_refuses_urls(text: str) -> None:
    with pytest.raises(Rejected, match="its URL") as told:
        destination(text)
    assert "services" not in str(told.value)

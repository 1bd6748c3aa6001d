"""Whom ``--notify`` notifies."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator, Sequence
from email import message_from_string
from typing import Any

import pytest
from tocsin.actions.endpoint import Endpoint
from tocsin.actions.webhook import Rejected
from tocsin.aws.https import NotDelivered
from tocsin.judge.targets import PAGERDUTY, desktop, endpoint_of, mail, target_of

from tests.unit.actions.formats.test_formats import alert, event

FIRED = event(firing=[alert(StatusDetails="loss is <b>nan</b>")])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "slack=https://hooks.slack.com/services/x",
            Endpoint("https://hooks.slack.com/services/x", format="slack"),
        ),
        ("pagerduty=key", Endpoint(PAGERDUTY, format="pagerduty", routing_key="key")),
        ("json=https://example.com/a=b", Endpoint("https://example.com/a=b")),
    ],
)
def test_endpoints(text: str, expected: Endpoint) -> None:
    assert endpoint_of(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("https://hooks.slack.com/x", "write slack=URL"),
        ("slack", "write slack=URL"),
        ("fax=https://x.example", "--notify fax: write slack=URL"),
        ("slack=http://hooks.slack.com/x", "must begin with https://"),
        ("pagerduty=https://events.pagerduty.com/", "write the integration key"),
    ],
)
def test_what_is_no_endpoint(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        target_of(text)
    assert "/x" not in str(raised.value)  # a path may be a secret


class Server(socketserver.ThreadingTCPServer):
    """Takes mail without TLS."""

    allow_reuse_address = daemon_threads = True
    answers: dict[str, str]
    mails: list[str]

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class _Session(socketserver.StreamRequestHandler):
    server: Server

    def handle(self) -> None:
        self._say("220 ready")
        while line := self.rfile.readline().decode().strip():
            verb = line.split(":")[0].split()[0].upper()
            self._say(self.server.answers.get(verb, "250 fine"))
            if verb == "DATA":
                lines: list[str] = []
                while (text := self.rfile.readline().decode()) != ".\r\n":
                    lines.append(text)
                self.server.mails.append("".join(lines))
                self._say("250 taken")

    def _say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), _Session) as serving:
        serving.answers, serving.mails = {"DATA": "354 go on", "QUIT": "221 bye"}, []
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        yield serving
        serving.shutdown()


def test_a_mail_says_what_fires_and_what_to_do(server: Server) -> None:
    target_of(f"smtp://{server.place}/me@x.example,you@x.example").post(FIRED, "k", 0.0)
    (text,) = server.mails
    message = message_from_string(text)
    assert message["Subject"] == "warning: eval-loss in j1"
    assert message["To"] == "me@x.example,you@x.example"
    assert "What to do: " in message.get_payload()


def test_no_password_is_sent_without_tls(server: Server) -> None:
    with pytest.raises(Rejected, match="offers no TLS"):
        mail(f"smtp://me:secret@{server.place}/me@x.example").post(FIRED, "k", 0.0)
    assert server.mails == []


def test_a_mail_server_that_is_busy_is_asked_again(server: Server) -> None:
    server.answers["MAIL"] = "451 later"
    with pytest.raises(NotDelivered, match=r"127\.0\.0\.1: .*later"):
        mail(f"smtp://{server.place}/me@x.example").post(FIRED, "k", 0.0)


@pytest.mark.parametrize("url", ["smtp://h/", "smtp:///a@b.c", "smtp://h:x/a@b.c", "smtps://h/me"])
def test_what_is_no_mail_address(url: str) -> None:
    with pytest.raises(ValueError, match="write smtp://USER"):
        target_of(url)


@pytest.mark.parametrize(
    ("system", "tool", "text"),
    [("Linux", "notify-send", "loss is &lt;b&gt;nan"), ("Darwin", "osascript", "loss is <b>nan")],
)
def test_the_desktop_shows_it(
    monkeypatch: pytest.MonkeyPatch, system: str, tool: str, text: str
) -> None:
    monkeypatch.setattr("platform.system", lambda: system)
    ran: list[Sequence[Any]] = []
    desktop(ran.append, which=lambda name: f"/bin/{name}").post(FIRED, "k", 0.0)
    ((command, *_, about, shown),) = ran
    assert (command, about) == (f"/bin/{tool}", "warning: eval-loss in j1")
    assert text in shown


def test_a_machine_without_a_desktop_says_so() -> None:
    with pytest.raises(ValueError, match="needs notify-send"):
        desktop(which=lambda name: None)

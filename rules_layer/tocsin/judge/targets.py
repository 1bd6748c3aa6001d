"""The targets of ``--notify``: endpoints of webhooks, an e-mail address, this desktop."""

from __future__ import annotations

import platform
import shutil
import smtplib
import socket
import ssl
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from typing import Any, get_args
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from tocsin.actions.endpoint import Endpoint, request_of
from tocsin.actions.formats import Format
from tocsin.actions.formats.wording import entities, paragraphs, title
from tocsin.actions.webhook import Rejected, WebhookEvent
from tocsin.aws.https import Https, NotDelivered, destination
from tocsin.words import clean, cut

Send = Callable[[str, bytes, Mapping[str, str]], None]

FORMS = (
    "slack=URL, teams=URL, discord=URL, googlechat=URL, cloudevents=URL, json=URL, pagerduty=KEY, "
    "smtp://USER:PASSWORD@HOST/TO@EXAMPLE.COM or desktop"
)
PAGERDUTY = "https://events.pagerduty.com/v2/enqueue"
_SECONDS = 10.0
_BODY = 500  # characters that a desktop shows
_SCRIPT = (
    "on run texts\ndisplay notification (item 2 of texts) with title (item 1 of texts)\nend run"
)


@dataclass(frozen=True)
class Target:
    """A target of notifications.

    post: sends an event with its key at a time; raises Rejected, or NotDelivered to be tried again.
    takes_summary: whether the end of a run is sent, too.
    """

    name: str
    post: Callable[[Mapping[str, Any], str, float], None]
    takes_summary: bool = True


def target_of(text: str) -> Target:
    """Return the target that ``--notify`` names. Raises ValueError; no message quotes what may be
    secret.
    """
    if text == "desktop":
        return desktop()
    if text.startswith(("smtp://", "smtps://")):
        return mail(text)
    return webhook(endpoint_of(text))


def endpoint_of(text: str) -> Endpoint:
    """Return the endpoint of ``slack=URL`` or ``pagerduty=KEY``. Raises as ``target_of``."""
    form, equals, value = text.partition("=")
    if form not in get_args(Format) or not equals or not value:
        raise ValueError(f"--notify {form if form.isalpha() else '…'}: write {FORMS}")
    if form == "pagerduty" and "://" not in value:
        return Endpoint(PAGERDUTY, format="pagerduty", routing_key=value)
    if form == "pagerduty":
        raise ValueError("--notify pagerduty: write the integration key, not a URL")
    try:
        destination(value)
    except Rejected as error:
        raise ValueError(f"--notify {form}: {error}") from None
    return Endpoint(value, format=form)  # type: ignore[arg-type]


def webhook(endpoint: Endpoint, send: Send | None = None) -> Target:
    """Return a target that posts to an endpoint. ``send`` is by HTTPS to any host."""
    https = send or Https(allowed=lambda address: True).post

    def post(event: Mapping[str, Any], key: str, now: float) -> None:
        body, headers = request_of(endpoint, event, key, now)
        https(endpoint.url, body, headers)

    return Target(endpoint.format, post, takes_summary=endpoint.format != "pagerduty")


def mail(url: str, context: Callable[[], ssl.SSLContext] = ssl.create_default_context) -> Target:
    """Return a target that mails by ``smtp://`` or ``smtps://``. Raises as ``target_of``.

    ``smtp://`` changes to TLS where the server offers it; without TLS no password is sent.
    """
    parts, secure = urlsplit(url), url.startswith("smtps://")
    try:
        host, port = parts.hostname, parts.port or (465 if secure else 587)
    except ValueError:
        host, port = None, 0
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    to = unquote(parts.path.strip("/"))
    sender = (parse_qs(parts.query).get("from") or [user])[0]
    if "@" not in sender:
        sender = f"tocsin@{socket.gethostname()}"
    if not host or not to or not all("@" in each for each in to.split(",")):
        raise ValueError("--notify smtp: write smtp://USER:PASSWORD@HOST:PORT/TO@EXAMPLE.COM")

    def post(event: Mapping[str, Any], key: str, now: float) -> None:
        message = _message(event, sender, to)
        try:
            with _server(host, port, context() if secure else None) as server:
                if not secure and server.has_extn("starttls"):
                    server.starttls(context=context())
                    secured = True
                else:
                    secured = secure
                if user and not secured:
                    raise Rejected(f"{host} offers no TLS: passwords are sent over TLS only")
                if user:
                    server.login(user, password)
                server.send_message(message)
        except smtplib.SMTPAuthenticationError:
            raise Rejected(f"{host} refuses the user or the password") from None
        except (OSError, smtplib.SMTPException) as error:
            raise NotDelivered(f"{host}: {clean(str(error), 200)}") from None

    return Target("smtp", post)


def desktop(
    run: Callable[[Sequence[str]], object] | None = None,
    which: Callable[[str], str | None] = shutil.which,
) -> Target:
    """Return a target that shows a notification on this desktop. Raises as ``target_of``."""
    mac = platform.system() == "Darwin"
    tool = which("osascript" if mac else "notify-send")
    if tool is None:
        raise ValueError("--notify desktop needs notify-send: install libnotify (libnotify-bin)")
    run = run or _run

    def post(event: Mapping[str, Any], key: str, now: float) -> None:
        given = msgspec.convert(event, WebhookEvent)
        about, text = title(given), cut("\n".join(paragraphs(given, 3)), _BODY)
        begin = [tool, "-e", _SCRIPT] if mac else [tool, "--app-name=Tocsin", "--"]
        run([*begin, about, text if mac else entities(text)])

    return Target("desktop", post)


def _server(host: str, port: int, context: ssl.SSLContext | None) -> smtplib.SMTP:
    if context is not None:
        server: smtplib.SMTP = smtplib.SMTP_SSL(host, port, timeout=_SECONDS, context=context)
    else:
        server = smtplib.SMTP(host, port, timeout=_SECONDS)
    server.ehlo_or_helo_if_needed()
    return server


def _message(event: Mapping[str, Any], sender: str, to: str) -> EmailMessage:
    given = msgspec.convert(event, WebhookEvent)
    message = EmailMessage()
    message["Subject"], message["From"], message["To"] = title(given), sender, to
    message.set_content("\n\n".join([*paragraphs(given), f"Run: {clean(given.run)}"]))
    return message


def _run(command: Sequence[str]) -> None:
    try:
        subprocess.run(command, check=True, timeout=_SECONDS, capture_output=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError) as error:
        raise Rejected(f"the desktop: {clean(str(error), 200)}") from None

"""The deployment's webhooks: their URLs and secrets in SSM, and the request that each gets."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any, get_args

import msgspec
from botocore.exceptions import ClientError

from tocsin.actions import UnknownEndpoint
from tocsin.actions.formats import FORMATS, Format, content_type
from tocsin.actions.webhook import Rejected
from tocsin.aws.clients import error_code
from tocsin.aws.https import Https, destination
from tocsin.aws.settings import Names
from tocsin.words import ascii_only

FRESH = 300.0  # seconds that a parameter is remembered
_FORMATS = ", ".join(get_args(Format))
_EXAMPLE = (
    f'{{"url": "https://…", "secret": "…", "format": "json"}}, format being one of {_FORMATS}'
)


class _Endpoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    url: str
    secret: str = ""
    format: Format = "json"
    routing_key: str = ""


_decoder = msgspec.json.Decoder(_Endpoint)


@dataclass(frozen=True)
class Endpoints:
    """Posts to endpoints by name. ``names`` are those of the deployment; no other is looked up."""

    ssm: Any
    names: Collection[str]
    send: Callable[[str, bytes, Mapping[str, str]], None] = field(default=Https().post)
    now: Callable[[], float] = time.time
    prefix: str = Names().webhooks
    _known: dict[str, tuple[float, _Endpoint]] = field(default_factory=dict, init=False)

    def post(self, name: str, event: Mapping[str, Any], key: str) -> None:
        """UnknownEndpoint or Rejected: it cannot be; anything else: it may be the next time."""
        endpoint = self._endpoint(name)
        payload = FORMATS[endpoint.format](event)
        if endpoint.format == "pagerduty":
            payload = {"routing_key": endpoint.routing_key, **payload}
        body = msgspec.json.encode(payload)
        headers = {
            "Content-Type": content_type(endpoint.format),
            "User-Agent": _agent(),
            "X-Tocsin-Id": ascii_only(key),
        }
        if endpoint.secret:
            headers["X-Tocsin-Signature"] = signature(endpoint.secret, body, int(self.now()))
        self.send(endpoint.url, body, headers)

    def _endpoint(self, name: str) -> _Endpoint:
        if name not in self.names:
            listed = ", ".join(sorted(self.names)) or "none"
            raise UnknownEndpoint(
                f"no endpoint of the deployment: its option webhooks lists {listed}"
            )
        read_at, endpoint = self._known.get(name, (0.0, None))
        if endpoint is None or not 0 <= self.now() - read_at < FRESH:
            endpoint = _parse(self.prefix + name, self._parameter(name))
            self._known[name] = self.now(), endpoint
        return endpoint

    def _parameter(self, name: str) -> str:
        try:
            found = self.ssm.get_parameter(Name=self.prefix + name, WithDecryption=True)
        except ClientError as error:
            if error_code(error) != "ParameterNotFound":
                raise
            raise UnknownEndpoint(
                f"SSM has no parameter {self.prefix}{name}: make it, a SecureString of {_EXAMPLE}"
            ) from None
        return str(found["Parameter"]["Value"])


def signature(secret: str, body: bytes, at: int) -> str:
    """The header that proves who sent ``body``, and when (seconds since the epoch)."""
    code = hmac.new(secret.encode(), b"%d.%b" % (at, body), hashlib.sha256)
    return f"t={at},v1={code.hexdigest()}"


def _parse(name: str, text: str) -> _Endpoint:
    """No message quotes ``text``: all of it may be secret."""
    parameter = f"SSM's parameter {name}"
    try:
        endpoint = _decoder.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        raise UnknownEndpoint(f"{parameter} must hold {_EXAMPLE}") from None
    if (endpoint.format == "pagerduty") != bool(endpoint.routing_key):
        raise UnknownEndpoint(
            f"{parameter}: routing_key, the integration key of a service, goes with format "
            "pagerduty, and format pagerduty with it"
        )
    try:
        destination(endpoint.url)
    except Rejected as error:
        raise UnknownEndpoint(f"{parameter}: {error}; it must hold {_EXAMPLE}") from None
    return endpoint


def _agent() -> str:
    try:
        return f"tocsin/{version('tocsin')}"
    except PackageNotFoundError:  # in the layer, which holds the package alone
        return "tocsin"

"""The deployment's webhooks: their URLs and secrets in SSM, and the request that each gets."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

import msgspec
from botocore.exceptions import ClientError

from tocsin.actions import UnknownEndpoint
from tocsin.actions.endpoint import Endpoint, request_of
from tocsin.actions.formats import Format
from tocsin.actions.webhook import Rejected
from tocsin.aws.clients import error_code
from tocsin.aws.https import Https, destination
from tocsin.aws.settings import Names

FRESH = 300.0  # seconds that a parameter is remembered
_FORMATS = ", ".join(get_args(Format))
_EXAMPLE = (
    f'{{"url": "https://…", "secret": "…", "format": "json"}}, format being one of {_FORMATS}'
)


_decoder = msgspec.json.Decoder(Endpoint)


@dataclass(frozen=True)
class Endpoints:
    """Posts to endpoints by name. ``names`` are those of the deployment; no other is looked up."""

    ssm: Any
    names: Collection[str]
    send: Callable[[str, bytes, Mapping[str, str]], None] = field(default=Https().post)
    now: Callable[[], float] = time.time
    prefix: str = Names().webhooks
    _known: dict[str, tuple[float, Endpoint]] = field(default_factory=dict, init=False)

    def post(self, name: str, event: Mapping[str, Any], key: str) -> None:
        """UnknownEndpoint or Rejected: it cannot be; anything else: it may be the next time."""
        endpoint = self._endpoint(name)
        body, headers = request_of(endpoint, event, key, self.now())
        self.send(endpoint.url, body, headers)

    def _endpoint(self, name: str) -> Endpoint:
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
                f"SSM has no parameter {self.prefix}{name}: create a SecureString of {_EXAMPLE}"
            ) from None
        return str(found["Parameter"]["Value"])


def _parse(name: str, text: str) -> Endpoint:
    """No message quotes ``text``: all of it may be secret."""
    parameter = f"SSM's parameter {name}"
    try:
        endpoint = _decoder.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        raise UnknownEndpoint(f"{parameter} must hold {_EXAMPLE}") from None
    if (endpoint.format == "pagerduty") != bool(endpoint.routing_key):
        raise UnknownEndpoint(
            f"{parameter}: format pagerduty needs routing_key, the integration key of a service; "
            "other formats do not take it"
        )
    try:
        destination(endpoint.url)
    except Rejected as error:
        raise UnknownEndpoint(f"{parameter}: {error}; it must hold {_EXAMPLE}") from None
    return endpoint

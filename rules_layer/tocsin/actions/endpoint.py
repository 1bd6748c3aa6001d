"""An endpoint that webhooks are posted to, and the request that it gets."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import msgspec

from tocsin.actions.formats import FORMATS, Format, content_type
from tocsin.words import ascii_only


class Endpoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A URL to post to, with its format; ``routing_key`` is PagerDuty's."""

    url: str
    secret: str = ""
    format: Format = "json"
    routing_key: str = ""


def request_of(
    endpoint: Endpoint, event: Mapping[str, Any], key: str, now: float
) -> tuple[bytes, dict[str, str]]:
    """Return the body and the headers; ``event`` is a ``WebhookEvent`` as JSON has it.

    Raises Rejected if the format has no room for such an event.
    """
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
        headers["X-Tocsin-Signature"] = signature(endpoint.secret, body, int(now))
    return body, headers


def signature(secret: str, body: bytes, at: int) -> str:
    """Return the header that proves who sent ``body``, and when (seconds since the epoch)."""
    code = hmac.new(secret.encode(), b"%d.%b" % (at, body), hashlib.sha256)
    return f"t={at},v1={code.hexdigest()}"


def _agent() -> str:
    try:
        return f"tocsin/{version('tocsin')}"
    except PackageNotFoundError:  # in the layer, which holds the package alone
        return "tocsin"

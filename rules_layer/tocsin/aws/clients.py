"""The one place where AWS clients are made, with one configuration for all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from tocsin.retries import RETRIES

CONNECTIONS = 32

AWS_ERRORS = (BotoCoreError, ClientError)
"""All that a call may raise."""

Client = Callable[[str], Any]
"""Makes the client of a service by the service's name."""

# A call that hangs is given up early enough to be tried again: `act` begins an action only when it
# has 15 seconds left. What still fails after the retries, SQS brings back.
CONFIG = Config(
    retries=RETRIES, max_pool_connections=CONNECTIONS, connect_timeout=3, read_timeout=10
)

# Links to objects: signed as every region takes it, with the region's own address.
_S3 = CONFIG.merge(Config(signature_version="s3v4", s3={"addressing_style": "path"}))


_making = Lock()  # boto3 makes one client at a time, and threads call


@dataclass(frozen=True)
class LazyClient:
    """The client of a service, made at its first call: that takes longer than most calls."""

    service: str

    @cached_property
    def _client(self) -> Any:
        with _making:
            return real_client(self.service)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


def real_client(service: str) -> Any:
    """Return a client of whatever AWS the environment names."""
    return boto3.client(service, config=_S3 if service == "s3" else CONFIG)


def is_denied(error: BaseException) -> bool:
    """Return whether AWS refuses the call until a permission or key is granted."""
    if isinstance(error, ClientError):
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        code = error_code(error)
        return status == 403 or code.startswith(("KMS.", "AccessDenied"))
    return isinstance(error, PermissionError)


def error_code(error: ClientError) -> str:
    """Return the code by which AWS names the error."""
    return str(error.response["Error"]["Code"])

"""The roles of training jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tocsin.aws.clients import AWS_ERRORS
from tocsin.aws.settings import PREFIX_TAG


@dataclass(frozen=True)
class Roles:
    client: Any

    def prefix(self, role: str) -> str:
        """The prefix of a role (ARN). Empty where there is none, or where it cannot be read: then
        the role's stops are counted by themselves.
        """
        try:
            tags = self.client.list_role_tags(RoleName=role.rpartition("/")[2])["Tags"]
        except AWS_ERRORS:
            return ""
        return next((str(tag["Value"]) for tag in tags if tag["Key"] == PREFIX_TAG), "")

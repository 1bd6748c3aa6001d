"""Events on the deployment's bus."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec


@dataclass(frozen=True)
class Bus:
    client: Any
    name: str

    def put(self, detail_type: str, detail: Mapping[str, Any]) -> None:
        """Raises RuntimeError if the bus did not take the event: PutEvents itself does not."""
        answer = self.client.put_events(
            Entries=[
                {
                    "EventBusName": self.name,
                    "Source": "tocsin",
                    "DetailType": detail_type,
                    "Detail": msgspec.json.encode(detail).decode(),
                }
            ]
        )
        if answer["FailedEntryCount"]:
            raise RuntimeError(f"bus {self.name} refused the event: {answer['Entries'][0]}")

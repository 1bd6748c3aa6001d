"""Events on the deployment's bus."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from tocsin.events import DETAIL_TYPES, SOURCE, ActionTaken


@dataclass(frozen=True)
class Bus:
    client: Any
    name: str

    def put(self, event: ActionTaken) -> None:
        """Raises RuntimeError if the bus did not take the event: PutEvents itself does not."""
        answer = self.client.put_events(
            Entries=[
                {
                    "EventBusName": self.name,
                    "Source": SOURCE,
                    "DetailType": DETAIL_TYPES[type(event)],
                    "Detail": msgspec.json.encode(event).decode(),
                }
            ]
        )
        if answer["FailedEntryCount"]:
            raise RuntimeError(f"bus {self.name} refused the event: {answer['Entries'][0]}")

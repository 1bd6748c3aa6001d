"""Messages that the functions send to their own queues."""

from __future__ import annotations

import json


def encode_hint(run: str, why: str, tick: float | None = None) -> str:
    """Return a hint of our own. ASCII: SQS refuses a whole batch for one character that XML
    lacks."""
    return json.dumps({"tocsin": "hint", "run": run, "tick": tick, "why": why})


def encode_flush(run: str) -> str:
    """For ``act``: something of the run is due. For ``report``: its page is."""
    return json.dumps({"tocsin": "flush", "run": run})


def encode_deliver(run: str, waits: int = 0) -> str:
    """For ``act``: tasks of the run are to be carried out; it has waited so often for its turn."""
    return json.dumps({"tocsin": "deliver", "run": run, "waits": waits})

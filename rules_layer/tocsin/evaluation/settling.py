"""Collections files come in bursts, one of each worker: one look after a burst serves for it."""

from __future__ import annotations

import math

from tocsin.evaluation.messages import COLLECTIONS_WRITTEN, Hint
from tocsin.evaluation.ports import EvaluationPorts
from tocsin.tensors import parse_collections_key

SETTLE = 4.0  # seconds from asking for a look to the look
_COVERED = SETTLE / 2  # after asking, in which another file comes before it, whatever clocks say
_TO_COME = SETTLE * 3 / 4  # after asking, in which the look cannot have come


def waits(hint: Hint, ports: EvaluationPorts) -> bool:
    """Return whether a hint of collections files alone waits, for a look that has been asked for.

    Thousands of files cost a message each, and no look before the last of them. A hint of anything
    else never waits.
    """
    if hint.tick is not None or hint.continues or not (hint.keys or hint.configures):
        return False
    if any(parse_collections_key(key) is None for key in hint.keys):
        return False
    now, asked = ports.now(), ports.settling
    for run in [run for run, at in asked.items() if at <= now - SETTLE]:
        del asked[run]
    since = now - asked.get(hint.run, -math.inf)
    if not hint.keys:
        return since < _TO_COME
    if since >= _COVERED:
        ports.hints.send(hint.run, COLLECTIONS_WRITTEN, SETTLE)
        asked[hint.run] = now
    return True

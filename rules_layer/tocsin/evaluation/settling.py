"""Collections files come in bursts, one of each worker: one look serves for all of them."""

from __future__ import annotations

from tocsin.evaluation.messages import COLLECTIONS_WRITTEN, Hint
from tocsin.evaluation.ports import EvaluationPorts
from tocsin.tensors import parse_collections_key

SETTLE = 1.0  # seconds from the first file of a burst to the look
_KNOWN = SETTLE / 2  # within which another file is there before that look, whatever the clocks say


def waits(hint: Hint, ports: EvaluationPorts) -> bool:
    """Return whether a hint of collections files alone waits, for a look that has been asked for.

    Thousands of files cost a message each, and no look. A hint of anything else never waits.
    """
    if not hint.keys or any(parse_collections_key(key) is None for key in hint.keys):
        return False
    now, asked = ports.now(), ports.settling
    for run in [run for run, until in asked.items() if until <= now]:
        del asked[run]
    if hint.run not in asked:
        ports.hints.send(hint.run, COLLECTIONS_WRITTEN, SETTLE)
        asked[hint.run] = now + _KNOWN
    return True

"""Starts a function without the garbage collector.

While modules are imported, the collector looks through all of them again and again and frees
nothing, which takes much of their time. Import this module before any other of ours, and call
``started`` when all are there.
"""

from __future__ import annotations

import gc

gc.disable()

_OBJECTS = 50_000  # between two collections, some MB; by default 700 to 2,000


def started() -> None:
    """Switch the collector on. It never looks through what was imported until now: that stays.

    It also comes less often: a client makes tens of thousands of objects that stay, too.
    """
    gc.freeze()
    gc.set_threshold(_OBJECTS, *gc.get_threshold()[1:])
    gc.enable()

"""The model checkpoints that Keras' ``ModelCheckpoint`` saves."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from keras.callbacks import ModelCheckpoint

_PLACEHOLDER = re.compile(r"\{[^{}]*\}")


class SavedModels:
    """The newest file of each ``ModelCheckpoint`` among the callbacks; what is there already does
    not count.
    """

    def __init__(self, callbacks: Iterable[Any]) -> None:
        savers = [each for each in callbacks if isinstance(each, ModelCheckpoint)]
        self._patterns = [_PLACEHOLDER.sub("*", glob.escape(each.filepath)) for each in savers]
        self.within_epochs = any(each.save_freq != "epoch" for each in savers)
        self._before = {pattern: _newest(pattern) for pattern in self._patterns}

    def new(self) -> list[str]:
        """Return the paths that were saved since the last call."""
        found = []
        for pattern, before in self._before.items():
            newest = _newest(pattern)
            if newest is not None and newest != before:
                self._before[pattern] = newest
                found.append(newest[1])
        return found


def _newest(pattern: str) -> tuple[int, str] | None:
    """Return the time (ns) and path of the newest file; None without one."""
    found = []
    for path in glob.iglob(pattern):  # noqa: PTH207 - it is not below a folder that is known
        try:
            found.append((Path(path).stat().st_mtime_ns, path))
        except OSError:  # replaced at this moment
            continue
    return max(found, default=None)

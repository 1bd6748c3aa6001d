"""smdebug's names: a script, a rule or a notebook moves by replacing ``smdebug`` in its imports
with ``tocsin.smdebug``.

Each module has the names of smdebug's module, over Tocsin's hooks, trials and rules. What has no
counterpart raises NotImplementedError with a line that says what takes its place.
"""

from __future__ import annotations

from tocsin.model import Mode as modes  # noqa: N813 - smdebug's name
from tocsin.smdebug.core.collection import CollectionKeys
from tocsin.smdebug.core.reduction_config import ReductionConfig
from tocsin.smdebug.core.save_config import SaveConfig, SaveConfigMode

__all__ = ["CollectionKeys", "ReductionConfig", "SaveConfig", "SaveConfigMode", "modes"]

"""`python -m local`: runs the embedded AWS until it is interrupted."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path

from local.background import run
from local.paths import CACHE

if __name__ == "__main__":
    folder, context = [*sys.argv[1:], *(str(CACHE), "{}")[len(sys.argv) - 1 :]]
    with suppress(KeyboardInterrupt):
        run(Path(folder), json.loads(context))

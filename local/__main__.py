"""`python -m local`: runs the embedded AWS until it is interrupted."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from local.background import run
from local.error import LocalError
from local.paths import CACHE

if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else CACHE
    context = json.loads(sys.argv[2]) if len(sys.argv) > 2 else {}
    try:
        run(folder, context)
    except KeyboardInterrupt:
        sys.exit(130)
    except LocalError as error:
        sys.exit(f"tocsin: {error}")

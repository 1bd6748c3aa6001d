"""Run every benchmark, or those named: ``python -m benchmarks [NAME…]``."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main() -> None:
    known = sorted(path.stem for path in HERE.glob("[a-z]*.py"))
    chosen = sys.argv[1:] or known
    for name in chosen:
        if name not in known:
            sys.exit(f"no benchmark {name!r}: there are {', '.join(known)}")
        sys.argv = [name]
        print(f"\n== {name} ==", flush=True)
        runpy.run_module(f"benchmarks.{name}", run_name="__main__")


if __name__ == "__main__":
    main()

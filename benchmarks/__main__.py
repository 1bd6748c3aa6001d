"""Run every benchmark, or those named."""

from __future__ import annotations

import argparse
import ast
import re
import runpy
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main() -> None:
    known = {path.stem: _purpose(path) for path in sorted(HERE.glob("[a-z]*.py"))}
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        epilog="benchmarks:\n"
        + "".join(f"  {name:12}{purpose}\n" for name, purpose in known.items())
        + "\nExample: python -m benchmarks rules tensors\n"
        "Options of one benchmark: python -m benchmarks.latency --help",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="a benchmark; default: all")
    for name in (chosen := parser.parse_args().names or known):
        if name not in known:
            parser.error(f"no benchmark {name!r}: there are {', '.join(known)}")
    for name in chosen:
        sys.argv = [name]
        print(f"\n== {name} ==", flush=True)
        runpy.run_module(f"benchmarks.{name}", run_name="__main__")


def _purpose(path: Path) -> str:
    """The module's docstring up to its first full stop or colon."""
    text = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    return re.split(r"[.:]\s", text, maxsplit=1)[0]


if __name__ == "__main__":
    main()

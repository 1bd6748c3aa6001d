"""Figures and pictures of the examples, printed and written into their READMEs.

python -m examples.shown pruning            # runs it and writes README.md and picture.svg
python -m examples.shown pruning --small    # its smallest form: prints, and writes nothing
python -m examples.shown pruning --out runs # keeps its runs
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from tocsin_hooks import Hook

HERE = Path(__file__).parent
EXAMPLES = {
    "pruning": "",
    "early_stop": "torch",
    "multi_node": "",
    "class_imbalance_and_augmentation": "torch",
    "xgboost_report": "xgboost",
    "autoencoder_latent": "torch",
    "attention": "torch",
}
"""Each with the package that it needs beside those of the project."""
_FIGURES = re.compile(r"(<!-- figures -->\n).*?(<!-- end -->)", re.DOTALL)
_WIDE, _HIGH, _EDGE = 640, 260, 48
_COLORS = ("#1f5fbf", "#c2571a", "#16693a")


@dataclass(frozen=True)
class Shown:
    """figures: numbers as texts, by what they are. picture: SVG."""

    figures: Mapping[str, str]
    picture: str

    def table(self) -> str:
        rows = "".join(f"| {name} | {value} |\n" for name, value in self.figures.items())
        return f"| | |\n|---|---|\n{rows}"


def chart(
    title: str, across: str, lines: Mapping[str, Sequence[tuple[float, float]]], top: float = 1.0
) -> str:
    """Lines over one axis as SVG; the values go from 0 to ``top``."""
    most = max((x for points in lines.values() for x, _ in points), default=0.0) or 1.0
    wide, high = _WIDE - 2 * _EDGE, _HIGH - 2 * _EDGE
    form = f'viewBox="0 0 {_WIDE} {_HIGH}" role="img" font-family="sans-serif" font-size="13"'
    middle = f'x="{_EDGE + wide // 2}" y="{_HIGH - 10}" text-anchor="middle"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {form}>',
        f"<title>{escape(title)}</title>",
        f'<rect width="{_WIDE}" height="{_HIGH}" fill="#fff"/>',
        f'<text x="{_EDGE}" y="20" font-weight="bold">{escape(title)}</text>',
        f'<path d="M{_EDGE} {_EDGE}v{high}h{wide}" fill="none" stroke="#586371"/>',
        f'<text x="{_EDGE - 6}" y="{_EDGE + 4}" text-anchor="end">{top:.4g}</text>',
        f'<text x="{_EDGE - 6}" y="{_EDGE + high + 4}" text-anchor="end">0</text>',
        f'<text x="{_EDGE + wide}" y="{_HIGH - 28}" text-anchor="end">{most:.4g}</text>',
        f"<text {middle}>{escape(across)}</text>",
    ]
    for at, (name, points) in enumerate(lines.items()):
        color = _COLORS[at % len(_COLORS)]
        drawn = " ".join(
            f"{_EDGE + x / most * wide:.1f},{_EDGE + (1 - min(y / top, 1)) * high:.1f}"
            for x, y in points
        )
        parts.append(f'<polyline points="{drawn}" fill="none" stroke="{color}" stroke-width="2"/>')
        x = _EDGE + 8 + at * 190
        parts.append(f'<text x="{x}" y="{_EDGE - 8}" fill="{color}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>\n"])


def wait_until_written(hook: Hook, saves: int) -> None:
    """Returns when so many steps of the hook are in its run, or will not be."""
    while (stats := hook.stats).saved + stats.dropped + stats.lost < saves:
        time.sleep(0.002)


def run_elsewhere(name: str, *options: str) -> None:
    """Runs an example in the environment that has its package, made on demand."""
    from tests.frameworks.environment import python_with  # needs what only this environment has

    root = HERE.parent
    paths = os.pathsep.join(str(root / room) for room in ("rules_layer", "hooks", "."))
    given = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}  # the networks are small
    command = [str(python_with(EXAMPLES[name])), "-m", "examples.shown", name, *options]
    subprocess.run(command, cwd=root, env=given, check=True)


def show(name: str, *, small: bool = False, out: Path | None = None) -> Shown:
    """Runs an example in a folder, by default in one that is removed again."""
    run = import_module(f"examples.{name}.run").run
    with tempfile.TemporaryDirectory() as folder:
        shown: Shown = run(out / name if out else Path(folder), small=small)
        return shown


def write(name: str, shown: Shown) -> None:
    """Writes the picture, and the figures between two comments of the README."""
    folder = HERE / name
    (folder / "picture.svg").write_text(shown.picture)
    readme = folder / "README.md"
    text = _FIGURES.sub(lambda found: f"{found[1]}{shown.table()}{found[2]}", readme.read_text())
    readme.write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*EXAMPLES], default=[*EXAMPLES])
    parser.add_argument("--out", type=Path, help="keep the runs, in a folder for each example")
    parser.add_argument("--small", action="store_true", help="the smallest form; writes nothing")
    args = parser.parse_args()
    options = ["--small"] * args.small
    options += ["--out", str(args.out.resolve())] if args.out else []
    for name in args.names or EXAMPLES:
        if EXAMPLES[name] and find_spec(EXAMPLES[name]) is None:
            run_elsewhere(name, *options)
            continue
        shown = show(name, small=args.small, out=args.out)
        print(f"{name}\n{shown.table()}", flush=True)
        if not args.small:
            write(name, shown)


if __name__ == "__main__":
    main()

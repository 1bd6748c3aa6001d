"""Measures the code: its size, and names that are defined twice.

    python -m benchmarks.house [--json]

Counts modules and lines, class names that are defined more than once, circles among the modules,
files that import boto3, and the files that one S3 key passes on its way from the queue to a
verdict: it is evaluated in memory, and every file of ours that runs a line counts.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[1]
SOURCES = ("rules_layer/tocsin", "hooks/tocsin_hooks", "functions", "infra", "local")
PACKAGES = {"tocsin": ROOT / "rules_layer", "tocsin_hooks": ROOT / "hooks"}
RUN = ROOT / "tests/fixtures/smdebug/torch_mlp/run"
ON_THE_WAY = ("functions", "rules_layer/tocsin/evaluation", "rules_layer/tocsin/aws")
PROMISED_TWICE = frozenset({"TocsinCallback", "Rule"})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    found = measured()
    if parser.parse_args().json:
        print(json.dumps(found, indent=1))
        return
    for name, value in found.items():
        shown = value if isinstance(value, int) else len(value)
        print(f"{name:34}{shown:>8,}")
        if not isinstance(value, int):
            print("".join(f"{'':36}{each}\n" for each in value), end="")


def measured() -> dict[str, Any]:
    files = [file for folder in SOURCES for file in sorted((ROOT / folder).rglob("*.py"))]
    tests = sorted((ROOT / "tests").rglob("*.py"))
    return {
        "modules": len(files),
        "lines": sum(map(_lines, files)),
        "lines of tests": sum(map(_lines, tests)),
        "class names defined twice": sorted(_twice(files)),
        "circles among modules": [" ↔ ".join(circle) for circle in circles()],
        "files that import boto3": sorted(_importing(files, "boto3")),
        "files that one key passes": sorted(_passed()),
    }


def circles() -> list[list[str]]:
    """Sets of modules that import each other, directly or not, when they are loaded."""
    graph = dict(_imports())
    return sorted(sorted(each) for each in _components(graph) if len(each) > 1)


def _lines(file: Path) -> int:
    return len(file.read_text().splitlines())


def _twice(files: list[Path]) -> Iterator[str]:
    names = Counter(
        node.name
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ClassDef)
    )
    for name, count in names.items():
        if count > 1 and name not in PROMISED_TWICE:
            yield f"{name} ×{count}"


def _importing(files: list[Path], package: str) -> Iterator[str]:
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(name.split(".")[0] == package for name in names):
                yield str(file.relative_to(ROOT))
                break


def _imports() -> Iterator[tuple[str, set[str]]]:
    """Each module of the two packages, and those that it imports, for types or not."""
    modules = {
        ".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): file
        for package, root in PACKAGES.items()
        for file in (root / package).rglob("*.py")
    }
    for name, file in modules.items():
        found = set()
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                inner = {f"{node.module}.{each.name}" for each in node.names}
                found |= inner & modules.keys() or {node.module} & modules.keys()
            elif isinstance(node, ast.Import):
                found |= {each.name for each in node.names} & modules.keys()
        yield name, found - {name}


def _components(graph: dict[str, set[str]]) -> list[list[str]]:
    """Tarjan's strongly connected components."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in graph[node]:
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            at = stack.index(node)
            found.append(stack[at:])
            del stack[at:]

    sys.setrecursionlimit(10_000)
    for node in graph:
        if node not in index:
            visit(node)
    return found


def _passed() -> set[str]:
    from tocsin.evaluation import check, parse_message
    from tocsin.tensors import LocalStorage

    key = "jobs/j1/debug-output/index/000000000/000000000000_worker_0.json"
    record = {"s3": {"bucket": {"name": "bucket"}, "object": {"key": key}}}
    body = json.dumps({"Records": [{"eventName": "ObjectCreated:Put", **record}]})
    counted: dict[str, set[str]] = defaultdict(set)

    def profile(frame: FrameType, event: str, argument: object) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(str(ROOT)):
            counted[file].add(frame.f_code.co_name)

    sys.setprofile(profile)
    try:
        parse_message(body)
        check(LocalStorage(RUN))
    finally:
        sys.setprofile(None)
    names = {str(Path(file).relative_to(ROOT)) for file in counted}
    return {name for name in names if name.startswith(ON_THE_WAY)}


if __name__ == "__main__":
    main()

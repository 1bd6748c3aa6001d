"""Private names of PyTorch stand in one module of the hook."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

HOOK = Path(__file__).parents[3] / "hooks" / "tocsin_hooks" / "torch"
ALLOWED = HOOK / "autograd.py"
PYTHONS_OWN = {"_current_frames", "_getframe", "_replace"}
UNDOCUMENTED = {"next_functions", "output_nr", "variable"}
IN_TEXT = re.compile(r"\w*Backward\d|Backward\\d|AccumulateGrad|OptimizedModule|torch\._\w+")
OF_ATTRIBUTES = {"getattr", "hasattr", "setattr"}


def private_names(source: str) -> Iterator[str]:
    """Names that are private to another package, as far as the text shows."""
    tree = ast.parse(source)
    prose = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                continue
            case ast.Attribute(attr=name) if is_private(name) or name in UNDOCUMENTED:
                yield name
            case ast.ImportFrom(module=str(module), names=names) if module.startswith("torch"):
                parts = [*module.split("."), *(each.name for each in names)]
                yield from (each for each in parts if is_private(each))
            case ast.Import(names=names):
                parts = [part for each in names for part in each.name.split(".")]
                yield from (each for each in parts if is_private(each))
            case ast.Call(func=ast.Name(id=function), args=[_, ast.Constant(value=str(name)), *_]):
                if function in OF_ATTRIBUTES and (is_private(name) or name in UNDOCUMENTED):
                    yield name
            case ast.Constant(value=str(text)) if id(node) not in prose and IN_TEXT.search(text):
                yield text


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__") and name not in PYTHONS_OWN


FILES = sorted(each for each in HOOK.rglob("*.py") if each != ALLOWED)


@pytest.mark.parametrize("file", FILES, ids=lambda each: str(each.relative_to(HOOK)))
def test_private_names_stand_in_autograd(file: Path) -> None:
    assert [*private_names(file.read_text())] == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("node._saved_self", ["_saved_self"]),
        ("torch._C._get_function_stack_at(0)", ["_get_function_stack_at", "_C"]),
        ("node.next_functions[0]", ["next_functions"]),
        ("name == 'SoftmaxBackward0'", ["SoftmaxBackward0"]),
        ("from torch.nn.modules.loss import _Loss", ["_Loss"]),
        ("from torch._subclasses.fake_tensor import FakeTensor", ["_subclasses"]),
        ("import torch._dynamo", ["_dynamo"]),
        ("getattr(schedule, '_schedulers', ())", ["_schedulers"]),
        ("sys.modules.get('torch._dynamo.utils')", ["torch._dynamo.utils"]),
        ("self._own + weights._replace(axis=1) + value.__class__", []),
        ("'''SoftmaxBackward0'''", []),
    ],
)
def test_what_counts_as_private(source: str, expected: list[str]) -> None:
    assert [*private_names(source)] == expected


def test_it_is_one_module() -> None:
    assert len(ALLOWED.read_text().splitlines()) <= 300

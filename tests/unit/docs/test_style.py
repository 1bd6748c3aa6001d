"""Pages and messages follow the style page: standard terms, and sentences of at most 40 words."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tocsin.contracts import CONTRACTS
from tocsin.rules import describe, rule_names

ROOT = Path(__file__).parents[3]
WORDS = 40
PART = 25
OURS = re.compile(
    r"\b(?:anew|any more|as ever|as it stands|beside ours|by heart|comes? to nothing|"
    r"constant guess|for ever|for those who have|go(?:es)? on|going on|in another unit|in hand|"
    r"looks? in a row|mended|more rarely|no hashes of|none of the classes|not looked at|not whole|"
    r"(?<!there )(?:is|are|was|were) none|other ones|prepared otherwise|rooms|said once|"
    r"says nothing|so many|taken back|the union, if|turned round|upside down|what is left|"
    r"what is trained|when there is room|whoever|(?:can|to|cannot) be had|"
    r"come to (?:its|their) end|has no least value)\b",
    re.IGNORECASE,
)
"""Words and phrases of our own; `docs/style.md` has the standard ones."""

WITHOUT = {"style.md", "detection-tables.md"}
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *(path for path in sorted((ROOT / "docs").rglob("*.md")) if path.name not in WITHOUT),
    *sorted((ROOT / "examples").rglob("*.md")),
]
SOURCES = [
    path
    for folder in ("rules_layer/tocsin", "hooks/tocsin_hooks", "infra/tocsin_cdk", "local")
    for path in sorted((ROOT / folder).rglob("*.py"))
]

DOCUMENTED = [
    path
    for folder in ("rules_layer", "hooks", "infra", "functions", "local", "benchmarks", "examples")
    for path in sorted((ROOT / folder).rglob("*.py"))
]
PRODUCT = {"rules_layer", "hooks", "infra", "functions"}
ARTICLE = re.compile(r"(?:The|An?|One|All|Both|Another)\b")
QUESTION = re.compile(r"(?:How|What|Whether|Where|Whom?|Which|When|Why)\b")

_FENCE = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(`+)[^`]*\1")
_ITEM = re.compile(r"(?:[*-]|\d+\.|#+) ")


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of Markdown: of paragraphs, items, and cells of tables."""
    text = _CODE.sub("CODE", re.sub(r"\]\([^)]*\)", "]", _FENCE.sub("", text)))
    parts: list[str] = []
    for line in map(str.strip, text.splitlines()):
        if line.startswith("|"):
            parts += ["", *(cell for cell in line.strip("|").split("|")), ""]
        elif not line or _ITEM.match(line):
            parts += ["", _ITEM.sub("", line, count=1)]
        else:
            parts[-1:] = [f"{parts[-1] if parts else ''} {line}"]
    for part in parts:
        yield from re.split(r"(?<=[.!?])\s+", part.strip())


def faults(text: str, most: int = WORDS) -> list[str]:
    return [
        sentence
        for sentence in sentences(text)
        if len(sentence.split()) > most or OURS.search(sentence)
    ]


def messages(path: Path) -> Iterator[str]:
    """Yield the texts of a module, without docstrings; the parts of f-strings as one text."""
    tree = ast.parse(path.read_text())
    inner = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in ast.walk(node)
        if part is not node
    }
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if id(node) in inner | docstrings:
            continue
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                part.value if isinstance(part, ast.Constant) else "N" for part in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_page_is_read_once(path: Path) -> None:
    assert faults(path.read_text()) == []


def test_messages_use_standard_terms() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {text}"
        for path in SOURCES
        for text in messages(path)
        if " " in text and "\n" not in text and OURS.search(text)
    ]
    assert found == []


def openings(source: str) -> Iterator[str]:
    """Yield the first line of each docstring of a module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield (ast.get_docstring(node) or "").partition("\n")[0]


def test_docstrings_open_with_a_verb_or_a_noun() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {line}"
        for path in DOCUMENTED
        for line in openings(path.read_text())
        if QUESTION.match(line)
    ]
    assert found == []


def results(source: str) -> Iterator[str]:
    """Yield the first line of the docstring of each public function that returns a value."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
            continue
        silent = node.returns is None or ast.unparse(node.returns) == "None"
        if not (silent or any("property" in ast.unparse(each) for each in node.decorator_list)):
            yield (ast.get_docstring(node) or "").partition("\n")[0]


def test_functions_that_return_a_value_say_what_they_do() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {line}"
        for path in DOCUMENTED
        if path.relative_to(ROOT).parts[0] in PRODUCT
        for line in results(path.read_text())
        if ARTICLE.match(line)
    ]
    assert found == []


def test_openings_are_found() -> None:
    source = (
        """'What it holds.'\nclass A:\n    'How it is.'\n    def f(self):\n        'Whether.'"""
    )

    assert [line for line in openings(source) if QUESTION.match(line)] == [
        "What it holds.",
        "How it is.",
        "Whether.",
    ]


@pytest.mark.parametrize("name", rule_names())
def test_texts_of_a_rule(name: str) -> None:
    document = describe(name)
    texts = [document[key] for key in ("description", "causes", "advice", "advice_for_trees")]
    meanings = [each["meaning"] for each in document["parameters"]]
    assert [fault for text in (*texts, *meanings) for fault in faults(text)] == []


def test_texts_of_contracts() -> None:
    parts = [part for each in CONTRACTS.values() for part in (each.says, each.cause, each.advice)]
    assert [part for part in parts if len(part.split()) > PART or OURS.search(part)] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("word " * 40, []),
        ("word " * 41, [("word " * 41).strip()]),
        ("A first sentence. " + "word " * 39, []),
        ("| a cell | it is known by heart |", ["it is known by heart"]),
        ("* an item\n* with other ones", ["with other ones"]),
        ("`other ones` in code, and\n```text\nother ones\n```", []),
    ],
)
def test_faults_are_found(text: str, expected: Sequence[str]) -> None:
    assert faults(text) == expected

"""What the documents say is so: links, commands, code, watch files, versions."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest
import typer
from tocsin import installing
from tocsin.cli import app
from tocsin.custom import load_files
from tocsin.rules import forget, get_rule, rule_names
from tocsin.watch import parse_watch, resolve
from typer.core import TyperGroup
from typer.testing import CliRunner

from docs.constants_page import constants
from docs.generate import PAGES, pages, quick_start, with_installs
from docs.reference_pages import reference_pages

ROOT = Path(__file__).parents[3]
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").glob("**/*.md")),
    ROOT / "examples" / "README.md",
]
_FENCE = re.compile(r"^( *)```(.*?)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """A fenced block: where it stands, what it is said to be, what it holds."""

    document: Path
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.document.name}: {self.text.strip().splitlines()[0][:40]}"


def blocks(*kinds: str) -> list[Block]:
    found = [
        Block(path, kind.strip(), textwrap.dedent(text))
        for path in DOCUMENTS
        for _, kind, text in _FENCE.findall(path.read_text())
    ]
    return [block for block in found if block.kind in kinds]


def commands() -> Iterator[tuple[str, list[str]]]:
    """Every command line in a block of shell: the document's name, and its words."""
    for block in blocks("sh"):
        for line in block.text.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            end = next((at for at, word in enumerate(words) if word in (">", "|")), None)
            if words[:end]:
                yield block.document.name, words[:end]


def readme_commands() -> list[list[str]]:
    """The commands of the README that need no AWS and no training before them."""
    known = [words for name, words in commands() if name == "README.md"]
    return [
        words
        for words in known
        if words[:2] == ["tocsin", "rules"]
        or words[2:3] == ["tests/fixtures/smdebug/torch_mlp/run"]
    ]


def slug(heading: str) -> str:
    """The anchor that a heading gets."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    text = _FENCE.sub("", path.read_text())
    for link in _LINK.findall(text):
        if link.startswith("https://"):
            continue
        file, _, anchor = link.partition("#")
        target = path.parent / file if file else path
        assert target.exists(), link
        if anchor:
            headings = re.findall(r"^#+ (.+)$", target.read_text(), re.MULTILINE)
            assert anchor in map(slug, headings), link


def test_pictures_are_well_formed() -> None:
    for picture in (ROOT / "docs").glob("*.svg"):
        ElementTree.parse(picture)


@pytest.mark.parametrize("block", blocks("python"), ids=str)
def test_python_compiles(block: Block) -> None:
    compile(block.text, str(block), "exec")


@pytest.mark.parametrize("block", blocks("json"), ids=str)
def test_json_is_json(block: Block) -> None:
    json.loads(block.text)


@pytest.fixture
def custom_rule() -> Iterator[None]:
    """Register the rule that pages name as an example of one written for smdebug."""
    load_files(ROOT / "examples" / "rules_custom" / "written_for_smdebug.py")
    yield
    forget(get_rule("LossAboveAverage").__module__)


@pytest.mark.usefixtures("custom_rule")
@pytest.mark.parametrize("block", blocks("yaml {.watch}", "json {.watch}"), ids=str)
def test_watch_files_load(block: Block) -> None:
    watch = parse_watch(block.text.encode(), yaml=block.kind.startswith("yaml"))
    good, refused = resolve(watch)
    shown = re.findall(r"^class (\w+)\(Rule\)", block.document.read_text(), re.MULTILINE)
    assert good
    assert {each.rule_name for each in refused} <= {*shown}


def test_there_are_watch_files_of_both_kinds() -> None:
    assert blocks("yaml {.watch}")
    assert blocks("json {.watch}")
    assert not blocks("yaml")  # each is one, or must be marked


@pytest.mark.parametrize("words", [w for _, w in commands() if w[0] == "tocsin"], ids=" ".join)
def test_the_command_line_takes_it(words: list[str]) -> None:
    command = typer.main.get_command(app)
    context = None
    name, rest = words[0], words[1:]
    while isinstance(command, TyperGroup):
        context = command.make_context(name, [*rest], parent=context)
        name, command, rest = command.resolve_command(context, [*rest])
    command.make_context(name, rest, parent=context)  # raises on what it does not know


def test_the_quick_start_shows_what_its_training_logs() -> None:
    """The script of the README trains, and its log is what stands below it."""
    assert quick_start() == (ROOT / "README.md").read_text(), "run `make docs`"


@pytest.mark.parametrize("words", readme_commands(), ids=" ".join)
def test_the_commands_of_the_readme_run(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert CliRunner().invoke(app, words[1:], prog_name="tocsin").exit_code in (0, 1)


def test_the_readme_is_short_and_counts_the_rules() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 120
    counted = {int(number) for number in re.findall(r"[Mm]ore than (\d+) rules", text)}
    assert counted == {(len(rule_names()) - 1) // 10 * 10}


def test_make_has_the_targets() -> None:
    made = {word for _, words in commands() if words[0] == "make" for word in words[1:2]}
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert made
    assert made <= targets


def test_dead_letters_are_moved_to_a_queue_that_is_named() -> None:
    """SQS does not know where letters of EventBridge belong: they were never in a queue."""
    moves = [
        line
        for block in blocks("sh")
        for line in block.text.splitlines()
        if "start-message-move-task" in line
    ]
    assert moves
    assert all("--destination-arn" in line for line in moves)


def test_programs_and_files_that_commands_name_are_there() -> None:
    named = {
        word
        for _, words in commands()
        for word in words
        if re.match(r"(tests|examples|rules_layer|infra|local)/\S+$", word)
    }
    assert named
    assert [word for word in named if not (ROOT / word).exists()] == []


def test_the_rule_that_contributors_read_works(tmp_path: Path) -> None:
    rule, test = (block for block in blocks("python") if "ZeroGradient" in block.text)
    (tmp_path / "zero_gradient.py").write_text(rule.text)
    (tmp_path / "test_zero_gradient.py").write_text(test.text)
    shutil.copy(ROOT / "tests" / "unit" / "rules" / "conftest.py", tmp_path / "steps.py")
    (tmp_path / "conftest.py").write_text(
        "import sys\nimport zero_gradient\n"
        "sys.modules['tocsin.rules.zero_gradient'] = zero_gradient\n"
        "from steps import make_step, make_tensor\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def pins(*files: str) -> set[tuple[str, str]]:
    """Names and versions that requirements files pin directly."""
    found = set()
    for file in files:
        wanted = (ROOT / file).read_text().partition("# pulled in by")[0]
        found |= set(re.findall(r"^([\w.-]+)(?:\[.*\])?==(\S+)(?: \\)?$", wanted, re.MULTILINE))
    return found


def test_every_dependency_is_accounted_for() -> None:
    table = (ROOT / "docs" / "dependencies.md").read_text()
    expected = set(re.findall(r"^\| ([\w.-]+) \| ([^\s|]+)", table, re.MULTILINE))
    layer = "infra/tocsin_cdk/layer-requirements.txt"
    assert pins("requirements.txt", "local/requirements.txt", layer) <= expected
    emulator = dict(pins("local/ministack-requirements.txt"))
    assert ("ministack", emulator["ministack"]) in expected
    hatchling = re.search(r"hatchling==([\d.]+)", (ROOT / "pyproject.toml").read_text())
    assert hatchling
    assert ("hatchling", hatchling[1]) in expected


def test_every_option_of_a_deployment_is_on_its_page() -> None:
    from tocsin_cdk.options import _PARSERS

    page = (ROOT / "docs" / "options.md").read_text()
    expected = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    assert {key for key in _PARSERS if ":" not in key} <= expected


def test_pages_install_from_where_the_package_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for path in DOCUMENTS:
        assert with_installs(path.read_text()) == path.read_text(), "run `make docs`"
    monkeypatch.setattr(installing, "PUBLISHED", True)
    published = with_installs("pip install '.[cli]'")
    assert published == "pip install 'tocsin[cli]'"
    assert installing.install("cli") == published
    monkeypatch.undo()
    assert with_installs(published) == "pip install '.[cli]'"


def test_generated_pages_are_current() -> None:
    expected = pages() | reference_pages()
    written = {path: path.read_text() for path in {*PAGES.glob("*.md"), *expected}}
    stale = {
        path.name for path in expected.keys() | written if expected.get(path) != written.get(path)
    }
    assert not stale, f"run `make docs`: {sorted(stale)}"


def test_every_constant_of_a_rule_has_a_reason() -> None:
    found = constants()
    assert len(found) > 200
    assert not [each for each in found if not each.reason]

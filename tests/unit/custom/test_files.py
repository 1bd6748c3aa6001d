"""Rules in files: what is found, under which names, and what is said of a file that fails."""

from __future__ import annotations

import importlib
import sys
import textwrap
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from tocsin.custom import files, load_files, load_installed
from tocsin.rules import BadRule, _registry, build, find_rule, get_rule, rule_names

from tests.irregular import IRREGULAR, in_time

NATIVE = """
from __future__ import annotations
from dataclasses import dataclass
from tocsin import Rule, register
from tocsin.rules import HEALTHY, Reads

@register
@dataclass(frozen=True)
class Mine(Rule):
    \"\"\"It is mine.\"\"\"
    limit: float = 3.0

    def reads(self):
        return Reads({})

    def evaluate(self, state, step):
        return state, HEALTHY
"""
FOR_SMDEBUG = """
from smdebug.rules.rule import Rule

class Theirs(Rule):
    def __init__(self, base_trial, threshold=0.5):
        super().__init__(base_trial)

    def invoke_at_step(self, step):
        return False
"""
Put = Callable[[str, str], Path]


@pytest.fixture(autouse=True)
def _registry_of_its_own(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(_registry, "_rules", dict(_registry._rules))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith(files.CUSTOM):
            del sys.modules[name]


@pytest.fixture
def put(tmp_path: Path) -> Put:
    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    return write


@pytest.mark.parametrize(
    ("files", "names"),
    [
        ({"mine.py": NATIVE}, {"Mine"}),
        ({"theirs.py": FOR_SMDEBUG}, {"Theirs"}),
        ({"a-b.c.py": NATIVE, "theirs.py": FOR_SMDEBUG, "notes.txt": "?"}, {"Mine", "Theirs"}),
        ({"__init__.py": "1/0", "_draft.py": "1/0", "mine.py": NATIVE}, {"Mine"}),
        ({"empty.py": "", "also.py": "x = 1"}, set()),
        (
            {"_base.py": FOR_SMDEBUG, "b.py": "from ._base import Theirs\nclass More(Theirs): ..."},
            {"More"},
        ),
        (
            {"b.py": f"{FOR_SMDEBUG}\nclass _Draft(Theirs): ...\nclass NoRule(Rule): ..."},
            {"Theirs"},
        ),
        (
            {
                "b.py": "import abc\nfrom smdebug.rules import Rule\nclass Some(Rule):\n"
                "  @abc.abstractmethod\n  def invoke_at_step(self, step): ..."
            },
            set(),
        ),
        ({"b.py": f"{FOR_SMDEBUG}\nSame = Theirs"}, {"Theirs"}),
    ],
)
def test_a_folder(put: Put, files: dict[str, str], names: set[str]) -> None:
    before = set(rule_names())
    for name, text in files.items():
        folder = put(f"rules/{name}", text).parent
    load_files(folder)
    assert set(rule_names()) - before == names
    load_files(folder)  # once more does no harm
    assert set(rule_names()) - before == names


def test_a_file_that_has_changed_is_read_again(put: Put) -> None:
    load_files(put("mine.py", NATIVE))
    load_files(str(put("mine.py", NATIVE.replace("3.0", "4.0"))))
    assert build("Mine", {})[0] == get_rule("Mine")(limit=4.0)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\n1/0", "bad.py: line 2: ZeroDivisionError: division by zero"),
        ("def f(:", "line 1: invalid syntax"),
        ("import no_such_module_here", "ModuleNotFoundError: No module named 'no_such_module_her"),
        (
            "from smdebug.pytorch import Hook",
            "No module named 'smdebug.pytorch' (of smdebug, rule files get what rules and trials",
        ),
        ("from smdebug.rules import Nothing", "ImportError: cannot import name 'Nothing' from"),
        (NATIVE.replace('    """It is mine."""\n', ""), "TypeError: rule Mine: needs a docstring"),
        (NATIVE.replace("class Mine", "class ExplodingTensor"), "another rule is registered under"),
        ("raise SystemExit('no')", "SystemExit: no"),
        ("raise ValueError('two\\nlines')", "ValueError: two lines"),
    ],
)
def test_a_file_that_fails_is_told_in_one_line(put: Put, text: str, said: str) -> None:
    path = put("bad.py", text)
    with pytest.raises(BadRule) as caught:
        load_files(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not [name for name in sys.modules if name.endswith(".bad")]


@pytest.mark.parametrize("name", ["nothing", "nothing.py"])
def test_where_there_is_none(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadRule, match=f"{name}: there is no such file or folder of rules"):
        load_files(tmp_path / name)
    with pytest.raises(BadRule, match=r"no file in it whose name ends in \.py"):
        load_files(tmp_path)


def test_smdebug_is_lent_only_while_a_file_is_loaded(
    put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = type(sys)("smdebug")
    monkeypatch.setitem(sys.modules, "smdebug", real)
    load_files(put("theirs.py", FOR_SMDEBUG))
    assert find_rule("Theirs") is not None
    with pytest.raises(BadRule):
        load_files(put("bad.py", FOR_SMDEBUG + "\n1/0"))
    assert sys.modules["smdebug"] is real
    assert [name for name in sys.modules if name.startswith("smdebug.")] == []


def test_what_a_deployment_brought_along_is_installed(
    put: Put, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_installed()
    assert find_rule("Mine") is None
    put(f"{files.CUSTOM}/mine.py", NATIVE)
    put(f"{files.CUSTOM}/theirs.py", FOR_SMDEBUG)
    put(f"{files.CUSTOM}/bad.py", "1/0")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.warns(UserWarning, match=r"bad\.py: line 1: ZeroDivisionError"):
        load_installed()
    assert find_rule("Mine") is not None
    assert find_rule("Theirs") is not None


def test_no_rule_is_known_if_its_file_fails(put: Put) -> None:
    with pytest.raises(BadRule, match="RuntimeError: too late"):
        load_files(put("late.py", NATIVE + "raise RuntimeError('too late')"))
    assert find_rule("Mine") is None


def test_rules_of_other_distributions(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("site")
    (folder / "spam_rules.py").write_text(
        "from dataclasses import dataclass\n"
        "from tocsin.rules import HEALTHY, Reads, Rule, register\n"
        "@register\n@dataclass(frozen=True)\nclass Spam(Rule):\n"
        '    """There is spam."""\n'
        "    def reads(self): return Reads({})\n"
        "    def evaluate(self, state, step): return state, HEALTHY\n"
    )
    asked = []

    def installed(*, group: str) -> list[EntryPoint]:
        asked.append(group)
        return [EntryPoint("spam", "spam_rules", group)]

    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(_registry, "entry_points", installed)
    importlib.invalidate_caches()
    try:
        load_installed()
        assert asked == ["tocsin.rules"]
        assert build("Spam", {})[1] == {}
        load_installed()  # once more does no harm
    finally:
        sys.modules.pop("spam_rules", None)


@pytest.mark.parametrize("kind", IRREGULAR)
def test_only_regular_files_are_run(tmp_path: Path, kind: str) -> None:
    IRREGULAR[kind](tmp_path / "mine.py")
    with pytest.raises(BadRule, match=r"mine\.py: not a Python file"):
        in_time(lambda: load_files(tmp_path))

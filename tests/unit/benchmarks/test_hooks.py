"""The benchmark of hooks, as far as it needs no framework: its processes and its table."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks._hooks_process import Failed, Process
from benchmarks._hooks_sides import PLAIN, Measured, Side, measure
from benchmarks.hooks import importing, table

MODEL = {"torch": "2", "threads": 2, "steps": 10, "parameters": 11_200_000, "tensors": 62}


def side(python: Path = Path(sys.executable)) -> Side:
    return Side("Ours", "_no_such_module", lambda: python, ("summaries",))


def measured(device: str = "cpu") -> Measured:
    """Blocks of 1, 2 and 3 seconds without a hook, and twice as long with one."""
    found = Measured(side(), environment=MODEL | {"device": device})
    for variant, factor in ((PLAIN, 1), ("summaries", 2)):
        found.blocks[variant] = [
            {"seconds": factor * at, "device": factor * at / 2} for at in (1.0, 3.0, 2.0)
        ]
    found.runs = {
        PLAIN: {"saves": 0, "bytes": 0, "unasked": 3, "own": None},
        "summaries": {"saves": 4, "bytes": 48_000, "unasked": 4, "own": 2},
    }
    found.memory = {PLAIN: 0.0, "summaries": 0.03}
    found.unsaved = {"summaries": (10.0, 20.0, 30.0)}
    return found


def test_a_ratio_is_that_of_the_medians() -> None:
    assert measured().ratios("summaries") == (1.5, 2.0, 2.5)
    assert measured().ratios("summaries", "device") == (1.5, 2.0, 2.5)


def test_the_table_shows_all_that_was_measured() -> None:
    lines = list(table("ResNet-18", [measured()]))
    assert lines[0] == "ResNet-18, 11.2 M weights in 62 tensors, cpu, 2 threads"
    assert lines[1].split()[:2] == ["10", "steps"]
    plain, summaries = lines[3:]
    assert plain.split() == ["no", "hook", "2,000", "ms", "0.750–1.250"]
    shown = "summaries 4,000 ms 2.000× 1.500–2.500 12 3.0% 20 µs (10–30)"
    assert summaries.split() == shown.split()


def test_a_device_has_its_own_ratio_and_synchronisations() -> None:
    *_, last = table("ResNet-18", [measured("a GPU")])
    assert "2.000× (1.500–2.500)" in last
    assert last.endswith("synchronisations a save: 1 as PyTorch counts, 2 as the hook does")


def test_one_block_is_enough() -> None:
    found = measured()
    found.blocks["summaries"] = [{"seconds": 5.0}]
    assert found.ratios("summaries") == (2.5, 2.5, 2.5)


@pytest.mark.parametrize(
    ("python", "reason"),
    [
        (Path(sys.executable), "No module named benchmarks._no_such_module"),
        (Path("/no/such/python"), "No such file"),
    ],
)
def test_a_side_that_fails_is_in_the_table_with_its_reason(
    tmp_path: Path, python: Path, reason: str
) -> None:
    found = measure([side(python)], "resnet", 1, tmp_path, small=True)
    *_, last = table("ResNet-18", [measured(), *found])
    assert last.startswith("  cannot be measured: ")
    assert reason in last


def test_an_environment_that_cannot_be_made_is_a_reason(tmp_path: Path) -> None:
    def made() -> Path:
        raise Failed("no disk")

    (found,) = measure([Side("Ours", "x", made, ())], "resnet", 1, tmp_path, small=True)
    assert found.error == "no disk"


def test_a_process_that_dies_between_questions_is_a_failure(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with Process(Path(sys.executable), "_no_such_module", log=log) as process:
        for _ in range(2):
            with pytest.raises(Failed, match="No module named"):
                process.ask("no hook")


def test_an_import_is_light() -> None:
    line = importing()
    assert line.startswith("import tocsin_hooks: ")
    assert int(line.split(" and ")[1].split()[0]) < 150

"""The detection benchmark's own workings: what needs no framework."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.detection.case import Case, cases
from benchmarks.detection.causes import CAUSES
from benchmarks.detection.evaluate import PROFILES, Alarm, Evaluation
from benchmarks.detection.families import HALVES
from benchmarks.detection.judge import Judged, Result
from benchmarks.detection.progress import work
from benchmarks.detection.report import BEGIN, END, PAGE, report, write
from benchmarks.detection.runs import Ending, Run, TrainingTask, in_turns, make_one, runs_of
from benchmarks.detection.thresholds import FILE, digest, text
from benchmarks.detection.truth import truth
from benchmarks.detection.wilson import by_families, share, wilson

FAMILIES = Path(__file__).parents[3] / "benchmarks" / "detection" / "families"


def train(seed: int, hook: object, **options: object) -> float:
    return 0.9


CASES = cases(
    "model",
    train,
    {"plain": {}, "odd": {"schedule": "restarts"}},
    {"shuffled labels": ("no-skill overfit", {"shuffled": True}), "frozen": ("unbound", {})},
    certain=("frozen",),
)
PLAIN, ODD, SHUFFLED, FROZEN = CASES


def test_a_family_lies_in_one_half() -> None:
    named = [module for half in HALVES.values() for module in half]
    assert len(named) == len(set(named))
    assert {path.stem for path in FAMILIES.glob("*.py")} - {"__init__", "kit"} == set(named)


def test_cases_of_a_family() -> None:
    assert [case.healthy for case in CASES] == [True, True, False, False]
    assert {case.reference for case in CASES} == {"plain"}
    assert SHUFFLED.causes == {"no-skill", "overfit"}
    assert SHUFFLED.folder == "model/shuffled-labels"


@pytest.mark.parametrize(
    ("case", "skill", "expected"),
    [
        (PLAIN, 0.9, "healthy"),
        (ODD, 0.856, "healthy"),
        (ODD, 0.85, "undecided"),
        (ODD, None, "undecided"),
        (SHUFFLED, 0.72, "harmful"),
        (SHUFFLED, None, "harmful"),
        (SHUFFLED, 0.73, "undecided"),
        (FROZEN, 0.9, "harmful"),
    ],
)
def test_truth_is_decided_by_skill(case: Case, skill: float | None, expected: str) -> None:
    assert truth(case, skill, 0.9) == expected


@pytest.mark.parametrize(
    ("cause", "rule", "detail", "named"),
    [
        ("no-skill", "NoBetterThanGuessing", "", True),
        ("no-skill", "DeadRelu", "", False),
        ("broadcast", "Contracts", "shapes (32, 1) and (32) broadcast to (32, 32)", True),
        ("broadcast", "Contracts", "no optimizer holds it", False),
        ("broadcast", "LossDiverging", "broadcast", False),
    ],
)
def test_a_cause_is_named(cause: str, rule: str, detail: str, named: bool) -> None:
    assert CAUSES[cause].named(rule, detail) is named


def test_runs_of_cases(tmp_path: Path) -> None:
    runs = runs_of(CASES, tmp_path)
    assert len(runs) == sum(case.seeds for case in CASES)
    assert len({run.folder for run in runs}) == len(runs)
    assert [run.seed for run in runs_of(CASES, tmp_path, 1)] == [0] * len(CASES)


def test_a_training_that_raises_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(seed: int, hook: object) -> float:
        raise ValueError("not today")

    failing = replace(PLAIN, train=fails)
    monkeypatch.setattr("benchmarks.detection.families.find", {PLAIN.folder: failing}.__getitem__)
    monkeypatch.setattr("benchmarks.detection.families.digest", lambda case: "code")
    run = Run(PLAIN.folder, 0, tmp_path / "0")
    make_one(TrainingTask(run, None))
    assert run.is_made
    assert (run.ending.skill, run.ending.error) == (None, "ValueError: not today")
    assert isinstance(run.ending, Ending)


@pytest.mark.parametrize(
    ("hits", "count", "interval"),
    [(0, 150, (0.0, 0.025)), (3, 150, (0.0068, 0.0571)), (10, 10, (0.722, 1.0)), (0, 0, (0, 1))],
)
def test_wilson(hits: int, count: int, interval: tuple[float, float]) -> None:
    assert wilson(hits, count) == pytest.approx(interval, abs=1e-3)


def test_a_share_in_words() -> None:
    assert share(3, 150) == "3/150 = 2.0 % (0.7–5.7)"
    assert share(0, 0) == "–"


def test_an_interval_by_families() -> None:
    assert by_families([(0, 10), (0, 10)]) == "0.0–0.0"
    assert by_families([(10, 10), (0, 10)]) == "0.0–100.0"
    assert by_families([]) == "–"


def judged(case: Case, truth: str, *alarms: Alarm) -> Judged:
    evaluation = Evaluation(steps=2500, alarms=alarms, failed=())
    evaluations = {} if truth == "undecided" else dict.fromkeys(PROFILES, evaluation)
    return Judged(case, Run(case.folder, 0, Path()), 0.5, 0.9, truth, evaluations)


def alarm(rule: str, step: int, severity: str = "warning", resolved: bool = False) -> Alarm:
    return Alarm(rule, severity, step, step / 2500, None, f"{rule} it is", resolved)


def test_the_report_counts_runs() -> None:
    text = report({
        "report": Result([
            judged(PLAIN, "healthy"),
            judged(ODD, "healthy", alarm("DeadRelu", 50)),
            judged(ODD, "healthy", alarm("DeadRelu", 50, "info")),
            judged(ODD, "undecided"),
            judged(SHUFFLED, "harmful", alarm("Overfit", 250), alarm("MemoryLeak", 500)),
            judged(SHUFFLED, "harmful", alarm("Overfit", 250), alarm("NonFiniteData", 125)),
            judged(FROZEN, "harmful", alarm("Overfit", 250, resolved=True)),
            judged(FROZEN, "harmful"),
        ])
    })  # fmt: skip
    row = next(line for line in text.splitlines() if "| recommended |" in line)
    assert "| 2/4 = 50.0 % (15.0–85.0) | 50.0–50.0 | 1/2 = 50.0 %" in row
    assert "| 8 % | 8 % of 2 | 1/3 = 33.3 %" in row
    assert "| model | 2/4 | 1/2 | 8 % | 1/3 | 1 |" in text
    assert "* model, odd: DeadRelu at 2 %: DeadRelu it is" in text
    assert (
        "* model, frozen: skill 0.50, the reference has 0.90; beside it: Overfit (resolved)" in text
    )
    assert "* model, shuffled labels: NonFiniteData at 5 %" in text


def test_the_report_is_written_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    write("new\n", page)
    assert page.read_text() == f"before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"
    page.write_text("nothing")
    with pytest.raises(ValueError, match="to write between"):
        write("new", page)


def test_the_page_has_the_marks() -> None:
    assert BEGIN in PAGE.read_text()
    assert END in PAGE.read_text()


def test_families_take_turns_and_references_come_first(tmp_path: Path) -> None:
    other = [replace(case, family="other") for case in CASES]
    known = {case.folder: case for case in (*CASES, *other)}
    order = in_turns(runs_of(known.values(), tmp_path), known)
    assert {run.case for run in order[:4]} == {"model/plain", "other/plain"}
    assert {run.case.split("/")[0] for run in order[4:8]} == {"model", "other"}
    assert {known[run.case].healthy for run in order[4:8]} == {True, False}
    assert len(order) == len(set(order)) == 12


def test_thresholds_were_written_before_the_report_half_was_run() -> None:
    """After a change: ``python -m benchmarks.detection.thresholds``, then the changelog."""
    assert FILE.read_text() == text()
    assert digest() in (FILE.parents[2] / "CHANGELOG.md").read_text()


def test_no_training_begins_after_the_time() -> None:
    assert list(work("training", abs, [-1, -2], 2, until=-1.0)) == []

"""The detection benchmark's own workings: what needs no framework."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tocsin.contracts import CONTRACTS
from tocsin.rules import RECOMMENDED, rule_names

from benchmarks.detection.case import Case, cases
from benchmarks.detection.causes import CAUSES, named_by
from benchmarks.detection.evaluate import Alarm, Evaluation
from benchmarks.detection.judge import Judged, Result
from benchmarks.detection.progress import work
from benchmarks.detection.report import BEGIN, END, PAGE, TABLES, breakdown, lists, overall, write
from benchmarks.detection.runs import Run, in_turns, runs_of
from benchmarks.detection.sample import of_scripts, of_tasks, quick
from benchmarks.detection.thresholds import FILE, digest, text
from benchmarks.detection.truth import truth
from benchmarks.detection.verdicts import changes, read, verdicts
from benchmarks.detection.verdicts import write as write_verdicts
from benchmarks.detection.wilson import share, wilson


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


def test_cases_of_a_script() -> None:
    assert [case.healthy for case in CASES] == [True, True, False, False]
    assert {case.reference for case in CASES} == {"plain"}
    assert SHUFFLED.causes == {"no-skill", "overfit"}
    assert SHUFFLED.folder == "model/shuffled-labels"
    assert len({case.digest for case in CASES}) == 1


def test_every_rule_and_contract_names_a_cause() -> None:
    known = {*CONTRACTS, *rule_names(RECOMMENDED, about="training")}
    assert named_by(CAUSES) == known - {"BrokenContract"}


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
    ("rule", "tensor", "name"),
    [
        ("NoSkill", None, "NoSkill"),
        ("NoSkill", "loss", "NoSkill"),
        ("BrokenContract", "contract/broadcast/train.py:9", "broadcast"),
        ("BrokenContract", "contract/of_a_newer_hook/train.py:9", "of_a_newer_hook"),
        ("BrokenContract", None, "BrokenContract"),
    ],
)
def test_an_alarm_has_the_name_of_its_contract(rule: str, tensor: str | None, name: str) -> None:
    assert Alarm(rule, "warning", 1, 0.1, tensor, "").name == name


def test_runs_of_cases(tmp_path: Path) -> None:
    runs = runs_of(CASES, tmp_path, 2)
    assert len(runs) == 2 * len(CASES)
    assert len({run.folder for run in runs}) == len(runs)


def of_group(group: str, loop: str, *names: str) -> list[Case]:
    sound = ("plain", "sound")
    return [
        Case(group, name, train, frozenset() if name in sound else frozenset(["fast"]), loop=loop)
        for name in ("plain", *names)
    ]


PAIRS = [
    case
    for loop in ("plain", "other")
    for task in range(9)
    for case in of_group(f"{task}, {loop}", loop, "sound", "rate", "loss")
]


def test_the_sample_has_every_change_and_the_references_of_its_groups() -> None:
    sample = of_tasks(PAIRS)
    references = {case.group for case in sample if case.is_reference}
    assert len(references) == 9 + 5
    assert {case.group for case in sample} <= references
    counts = [sum(case.name == name for case in sample) for name in ("sound", "rate", "loss")]
    assert counts == [5, 3, 3]
    assert of_tasks(PAIRS) == sample


def test_one_more_task_leaves_the_sample_nearly_as_it_is() -> None:
    before, after = of_tasks(PAIRS), of_tasks([*PAIRS, *of_group("9, plain", "plain", "rate")])
    assert len({case.folder for case in before} - {case.folder for case in after}) <= 1


def test_a_quick_sample_has_one_group_of_each_loop() -> None:
    small = quick(PAIRS)
    assert {case.loop for case in small} == {"plain", "other"}
    assert len({case.group for case in small}) == 2
    assert sum(case.is_reference for case in small) == 2


def test_the_sample_of_scripts_has_sound_and_faulty_cases() -> None:
    assert of_scripts(CASES, 1)[:2] == [PLAIN, ODD]
    assert len(of_scripts(CASES, 1)) == 3


@pytest.mark.parametrize(
    ("hits", "count", "interval"),
    [(0, 150, (0.0, 0.025)), (3, 150, (0.0068, 0.0571)), (10, 10, (0.722, 1.0)), (0, 0, (0, 1))],
)
def test_wilson(hits: int, count: int, interval: tuple[float, float]) -> None:
    assert wilson(hits, count) == pytest.approx(interval, abs=1e-3)


def test_a_share_in_words() -> None:
    assert share(3, 150) == "3/150 = 2.0 % (0.7–5.7)"
    assert share(0, 0) == "–"


def judged(case: Case, truth: str, *alarms: Alarm) -> Judged:
    evaluation = Evaluation(steps=2500, alarms=alarms, failed=())
    evaluations = {} if truth == "undecided" else {RECOMMENDED: evaluation}
    return Judged(case, Run(case.folder, 0, Path()), 0.5, 0.9, truth, evaluations)


def alarm(rule: str, step: int, severity: str = "warning", resolved: bool = False) -> Alarm:
    return Alarm(rule, severity, step, step / 2500, None, f"{rule} it is", resolved)


def test_the_report_counts_runs() -> None:
    results = {
        "scripts": Result([
            judged(PLAIN, "healthy"),
            judged(ODD, "healthy", alarm("DeadRelu", 50)),
            judged(ODD, "healthy", alarm("DeadRelu", 50, "info")),
            judged(ODD, "undecided"),
            judged(SHUFFLED, "harmful", alarm("Overfit", 250), alarm("MemoryLeak", 500)),
            judged(SHUFFLED, "harmful", alarm("Overfit", 250), alarm("NonFiniteData", 125)),
            judged(FROZEN, "harmful", alarm("Overfit", 250, resolved=True)),
            judged(FROZEN, "harmful"),
        ])
    }  # fmt: skip
    row = next(line for line in overall(results).splitlines() if "| recommended |" in line)
    assert "| 2/4 = 50.0 % (15.0–85.0) | 1/2 = 50.0 %" in row
    assert "| 8 % | 1/3 = 33.3 %" in row
    assert breakdown(results).count("| script | 2/4 | 1/2 | 8 % | 1/3 |") == 2
    text = lists(results)
    assert "* model: odd: DeadRelu at 2 %: DeadRelu it is" in text
    assert (
        "* model: frozen: skill 0.50, the reference has 0.90; beside it: Overfit (resolved)" in text
    )
    assert "* model: shuffled labels: NonFiniteData at 5 %" in text


def test_a_change_of_a_rule_shows_run_by_run(tmp_path: Path) -> None:
    assert read(tmp_path) == {}
    before = [judged(ODD, "healthy"), judged(SHUFFLED, "harmful", alarm("NoSkill", 9))]
    write_verdicts(tmp_path, verdicts([*before, judged(FROZEN, "undecided")]))
    after = [judged(ODD, "healthy", alarm("DeadRelu", 9)), before[1], judged(FROZEN, "harmful")]
    assert changes(read(tmp_path), verdicts(after)) == ["* healthy model/odd 0: nothing → DeadRelu"]


def test_the_report_is_written_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    write("new\n", page)
    assert page.read_text() == f"before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"
    page.write_text("nothing")
    with pytest.raises(ValueError, match="to write between"):
        write("new", page)


def test_the_page_has_the_marks() -> None:
    for page in (PAGE, TABLES):
        assert BEGIN in page.read_text()
        assert END in page.read_text()


def test_groups_take_turns_and_references_come_first(tmp_path: Path) -> None:
    other = [replace(case, group="other") for case in CASES]
    known = {case.folder: case for case in (*CASES, *other)}
    order = in_turns(runs_of(known.values(), tmp_path), known)
    assert {run.case for run in order[:2]} == {"model/plain", "other/plain"}
    assert {run.case.split("/")[0] for run in order[2:6]} == {"model", "other"}
    assert {known[run.case].healthy for run in order[2:6]} == {True, False}
    assert len(order) == len(set(order)) == 8


def test_the_thresholds_are_written_down() -> None:
    """After a change: ``python -m benchmarks.detection.thresholds``, then the changelog."""
    assert FILE.read_text() == text()
    assert digest() in (FILE.parents[2] / "CHANGELOG.md").read_text()


def test_no_training_begins_after_the_time() -> None:
    assert list(work("training", abs, [-1, -2], 2, until=-1.0)) == []

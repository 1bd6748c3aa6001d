"""What each rule and contract found: the rows, from judged runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from tocsin.contracts import CONTRACTS

from benchmarks.detection.attribution import BEGIN, END
from benchmarks.detection.case import Case, cases
from benchmarks.detection.chosen import chosen, listed
from benchmarks.detection.difference import difference
from benchmarks.detection.evaluate import Alarm, Evaluation
from benchmarks.detection.found import Seen
from benchmarks.detection.judge import Judged
from benchmarks.detection.mechanisms import MECHANISMS, VARIABLE, switch_off
from benchmarks.detection.pairs import Pair, pairs
from benchmarks.detection.report import TABLES
from benchmarks.detection.rows import Row, contract_rows, mechanism_row, rule_rows
from benchmarks.detection.runs import Run
from benchmarks.detection.truth import Truth


def train(seed: int, hook: object, **options: object) -> float:
    return 0.9


CASES = cases(
    "model",
    train,
    {"plain": {}, "odd": {}},
    {"column": ("broadcast", {}), "shuffled": ("overfit", {})},
)
PLAIN, ODD, COLUMN, SHUFFLED = CASES


def alarm(rule: str, step: int) -> Alarm:
    detail = CONTRACTS[rule].says if rule in CONTRACTS else rule
    return Alarm(rule, "warning", step, step / 100, None, detail)


def judged(case: Case, *alarms: Alarm, truth: Truth | None = None) -> Judged:
    decided = truth or ("healthy" if case.healthy else "harmful")
    evaluations = {"recommended": Evaluation(100, alarms, ())}
    return Judged(case, Run(case.folder, 0, Path()), 0.5, 0.9, decided, evaluations)


def seen(case: Case, *rules: Alarm, contracts: tuple[Alarm, ...] = ()) -> Seen:
    return Seen(judged(case, *rules), rules, contracts)


BROKEN = alarm("BrokenContract", 5)
RUNS = [
    seen(PLAIN),
    seen(ODD, alarm("Overfit", 40)),
    seen(COLUMN, BROKEN, contracts=(alarm("broadcast", 5),)),
    seen(
        COLUMN,
        BROKEN,
        alarm("NoSkill", 5),
        contracts=(alarm("broadcast", 5), alarm("softmax_single_class", 9)),
    ),
    seen(SHUFFLED, alarm("Overfit", 40), alarm("NoSkill", 30)),
    seen(SHUFFLED, alarm("Overfit", 40)),
    seen(SHUFFLED),
]


def test_the_rows_of_rules_say_what_would_be_lost() -> None:
    assert rule_rows(RUNS, ["Overfit", "DeadRelu"]) == [
        Row("BrokenContract", found=2, first=2, alone=1),
        Row("Overfit", found=2, first=1, alone=1, named=2, alarmed=1, alarmed_alone=1),
        Row("NoSkill", found=2, first=2),
        Row("DeadRelu"),
    ]


def test_the_rows_of_contracts_are_beside_other_contracts_and_rules() -> None:
    assert contract_rows(RUNS, ["broadcast", "no_gradient"]) == [
        Row("broadcast", found=2, first=2, alone=1, named=2),
        Row("softmax_single_class", found=1),
        Row("no_gradient"),
    ]


def test_the_rule_of_many_reasons_is_named_by_its_contract() -> None:
    one = Alarm("BrokenContract", "critical", 5, 0.05, "contract/broadcast/train.py:3", "")
    (row,) = rule_rows([seen(COLUMN, one)], [])
    assert row.named == 1


def test_a_mechanism_is_what_its_runs_lose_without_it() -> None:
    fired = alarm("Overfit", 10)
    before = [judged(PLAIN), judged(ODD, fired), judged(COLUMN, fired), judged(SHUFFLED)]
    after = [judged(PLAIN, fired), judged(ODD), judged(COLUMN), judged(SHUFFLED)]
    assert mechanism_row("replay", pairs(before, after)) == ("replay", 4, 1, 0, 1, 1)


def test_runs_that_are_in_one_folder_alone_are_left_out() -> None:
    assert pairs([judged(PLAIN), judged(ODD)], [judged(ODD)]) == [Pair(judged(ODD), judged(ODD))]


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        (
            judged(COLUMN),
            judged(COLUMN, alarm("NoSkill", 1)),
            "* found: model/column 0: nothing → NoSkill",
        ),
        (
            judged(COLUMN, alarm("NoSkill", 1)),
            judged(COLUMN),
            "* lost: model/column 0: NoSkill → nothing",
        ),
        (
            judged(ODD),
            judged(ODD, alarm("NoSkill", 1)),
            "* alarmed: model/odd 0: nothing → NoSkill",
        ),
        (
            judged(COLUMN, alarm("NoSkill", 1)),
            judged(COLUMN, alarm("Overfit", 1)),
            "* otherwise: model/column 0: NoSkill → Overfit",
        ),
        (
            judged(ODD),
            judged(ODD, truth="undecided"),
            "* model/odd 0: healthy, then undecided: skill 0.5 and 0.5",
        ),
    ],
)
def test_differences_run_by_run(before: Judged, after: Judged, line: str) -> None:
    text = difference([Pair(judged(PLAIN), judged(PLAIN)), Pair(before, after)])
    assert text.splitlines()[0].startswith("2 runs in both")
    assert [each for each in text.splitlines() if each.startswith("* ")] == [line]


def test_cases_of_a_list_come_with_their_references(tmp_path: Path) -> None:
    file = tmp_path / "sample.txt"
    file.write_text("model/shuffled\n\n")
    assert chosen(CASES, names=listed(file, CASES)) == [PLAIN, SHUFFLED]
    assert chosen(CASES, "odd") == [PLAIN, ODD]
    assert chosen(CASES, names=listed(None, CASES)) == [*CASES]


def test_a_case_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "sample.txt"
    file.write_text("model/shufled\n")
    with pytest.raises(ValueError, match="no case is named model/shufled"):
        listed(file, CASES)


def test_a_mechanism_that_is_not_there_is_not_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    switch_off()
    monkeypatch.setenv(VARIABLE, "charm")
    with pytest.raises(KeyError):
        switch_off()
    assert "replay" in MECHANISMS


def test_the_page_has_the_marks() -> None:
    assert BEGIN in TABLES.read_text()
    assert END in TABLES.read_text()

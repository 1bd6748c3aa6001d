"""The page without JavaScript: what was found, why and what to do; then everything else."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
from tocsin.report import Page, compared, report_on
from tocsin.report.plain import text_of

from tests.unit.report.test_report import NASTY, write


def _page(path: Path, lost_from: int = 20) -> Page:
    return report_on(write(path, lost_from=lost_from))


def _positions(text: str, *parts: str) -> list[int]:
    return [text.index(part) for part in parts]


def test_the_finding_its_cause_and_advice_come_first(tmp_path: Path) -> None:
    page, other = _page(tmp_path / "a"), _page(tmp_path / "b", lost_from=30)

    text = text_of(compared([page, other]))

    places = _positions(
        text,
        f"<h1>{page.verdict.sentence[:20]}",
        f"<h2>{page.rules[0].name}</h2>",
        "<b>Why it happens.</b>",
        "<b>What to do.</b>",
        "<h2>Compared with</h2>",
        "<h2>All rules</h2>",
        "<details>",
    )
    assert places == sorted(places)


def test_clean_and_not_applicable_rules_are_folded(tmp_path: Path) -> None:
    page = _page(tmp_path)

    before, *folds = re.split("<details><summary>", text_of(page))

    counts = dict.fromkeys(("NoIssuesFound", "NotApplicable", "IssuesFound"), 0)
    for rule in page.rules:
        counts[rule.status] += 1
    assert before.count("<td>IssuesFound") == counts["IssuesFound"] > 0
    assert [fold.partition("<")[0] for fold in folds] == [
        f"No issues found ({counts['NoIssuesFound']})",
        f"Not applicable to this run ({counts['NotApplicable']})",
    ]
    assert "<td>NotApplicable" not in before + folds[0]


def test_names_are_text(tmp_path: Path) -> None:
    page = _page(tmp_path)
    run = msgspec.structs.replace(page.run, job=NASTY)
    rules = [msgspec.structs.replace(rule, name=NASTY, details=NASTY) for rule in page.rules]

    text = text_of(msgspec.structs.replace(page, run=run, rules=rules))

    assert "<script" not in text
    assert text.count("alert(1)") > 2 * len(rules)

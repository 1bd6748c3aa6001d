"""The table of a replay of many runs: a row for each rule of each run, now and then."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tocsin.cli.output import Document
from tocsin.words import spreadsheet_text

Row = dict[str, Any]
COLUMNS: Mapping[str, str] = {
    "run": "string",
    "job": "string",
    "rule": "string",
    "severity": "string",
    "status": "string",
    "step": "int64",
    "violations": "int64",
    "details": "string",
    "status_before": "string",
    "step_before": "int64",
    "changed": "bool_",
}
"""The columns with their types in Parquet. ``step`` is the one at which the rule fired; those of a
run that was not evaluated before have no status before."""


def rows_of(result: Document) -> Iterator[Row]:
    """Yield the rows of one run: its rules as they are now, then those that it had before only."""
    before = {rule["RuleConfigurationName"]: rule for rule in result["before"]}
    now = {rule["RuleConfigurationName"]: rule for rule in result["rules"]}
    for name in (*now, *(name for name in before if name not in now)):
        rule, then = now.get(name, {}), before.get(name, {})
        status, status_before = (each.get("RuleEvaluationStatus") for each in (rule, then))
        yield {
            "run": result["run"],
            "job": result["job"],
            "rule": name,
            "severity": rule.get("Severity"),
            "status": status,
            "step": _fired_at(rule),
            "violations": rule.get("Violations"),
            "details": rule.get("StatusDetails"),
            "status_before": status_before,
            "step_before": _fired_at(then),
            "changed": bool(before) and status != status_before,
        }


def write_tables(rows: Sequence[Row], base: Path) -> list[Path]:
    """Write ``base`` with .csv, and with .parquet where pyarrow is installed."""
    written = [base.with_name(f"{base.name}.csv")]
    with written[0].open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows({key: _cell(value) for key, value in row.items()} for row in rows)
    if find_spec("pyarrow") is not None:
        written.append(base.with_name(f"{base.name}.parquet"))
        _write_parquet(rows, written[1])
    return written


def _cell(value: Any) -> Any:
    """Runs are not trusted: a name or a detail must not become a formula of the reader's."""
    return spreadsheet_text(value) if isinstance(value, str) else value


def _write_parquet(rows: Sequence[Row], path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    schema = pyarrow.schema([(name, getattr(pyarrow, kind)()) for name, kind in COLUMNS.items()])
    parquet.write_table(pyarrow.Table.from_pylist(list(rows), schema=schema), path)


def _fired_at(rule: Mapping[str, Any]) -> int | None:
    violation = rule.get("FiredAt")
    return None if violation is None else violation["step"]

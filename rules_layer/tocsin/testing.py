"""For tests of trainings: asserts that a run is healthy."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from tocsin.custom import load_files, load_installed
from tocsin.evaluation import check, document, watch_of_history
from tocsin.histories import Choices, as_run, reader_of
from tocsin.model import Severity
from tocsin.report import fired
from tocsin.rules import advice_for, find_rule
from tocsin.tensors import Storage, open_storage
from tocsin.watch import Watch, read_watch, resolve, to_watch


def assert_healthy(
    run: str | PathLike[str],
    *,
    watch: str | PathLike[str] | Mapping[str, Any] | None = None,
    rules: Iterable[str | Mapping[str, Any]] | None = None,
    fail_on: str = "warning",
    losses: Iterable[str] = (),
) -> None:
    """Evaluate the rules over a run, and raise AssertionError with what they found.

    run: a folder, ``s3://bucket/prefix``, or a history of another tool.
    watch: a watch file, or its content; default: the run's own, else profile recommended.
    rules: in place of ``watch``, rules as in a watch file: ``["ExplodingTensor"]``.
    fail_on: the least severity that fails: info, warning or critical.
    losses: for a history, the names of its losses.

    A run that no rule can judge, and a rule in Error, fail too. Raises ValueError and OSError for
    a wrong argument.

    Example:
        >>> def test_training_is_healthy(tmp_path):
        ...     train(steps=50, output=tmp_path / "run")
        ...     assert_healthy(tmp_path / "run")
    """
    __tracebackhide__ = True
    least = list(Severity).index(Severity(fail_on))
    load_installed()
    given = _watch(watch, rules)
    checkpoint, _ = check(_storage(run, tuple(losses)), given)
    found = document(checkpoint)
    severe = [
        rule
        for rule in fired(found)
        if list(Severity).index(Severity(rule["Severity"] or Severity.WARNING)) >= least
    ]
    wrong = [rule for rule in found["rules"] if rule["RuleEvaluationStatus"] == "Error"]
    if severe or wrong:
        count = len(severe) + len(wrong)
        title = f"{run} is not healthy: {count} {'rule' if count == 1 else 'rules'}"
        raise AssertionError("\n".join([title, *map(_line, (*severe, *wrong))]))
    if not any(rule["DataPoints"] for rule in found["rules"]):
        reasons = {key: names for key, names in found["not_judged"].items() if names}
        raise AssertionError(
            f"{run}: no rule could judge it ({found['steps']['evaluated']} steps; {reasons})"
        )


def _line(rule: Mapping[str, Any]) -> str:
    where = f", step {rule['FirstViolation']['step']}" if rule["FirstViolation"] else ""
    known = find_rule(rule["Rule"])
    text = advice_for(known, (rule["FirstViolation"] or {}).get("tensor"))
    advice = f"\n    what to do: {text}" if text else ""
    severity = "Error" if rule["RuleEvaluationStatus"] == "Error" else rule["Severity"]
    name = rule["RuleConfigurationName"]
    return f"  {name} ({severity}{where}): {rule['StatusDetails']}{advice}"


def _storage(run: str | PathLike[str], losses: tuple[str, ...]) -> Storage:
    place = str(run) if "://" in str(run) else Path(run).expanduser()
    if isinstance(place, str):
        return open_storage(place)
    if not place.exists():
        raise FileNotFoundError(f"{place}: no such run")
    reader = reader_of(place)
    if reader is None:
        return open_storage(place)
    return as_run(
        reader,
        lambda text: warnings.warn(text, stacklevel=3),
        Choices(losses),
        read_as=lambda _: None,
        configure=watch_of_history,
    )


def _watch(
    watch: str | PathLike[str] | Mapping[str, Any] | None,
    rules: Iterable[str | Mapping[str, Any]] | None,
) -> Watch | None:
    if watch is not None and rules is not None:
        raise ValueError("name either watch or rules")
    if isinstance(watch, str | PathLike):
        given = read_watch(Path(watch))
        if given.custom_rules is not None:
            load_files(Path(watch).parent / given.custom_rules)
    elif watch is not None:
        given = to_watch(watch)
    elif rules is not None:
        given = to_watch({"rules": [*rules]})
    else:
        return None
    _, refused = resolve(given)
    if refused:
        raise ValueError(refused[0].reason)
    return given

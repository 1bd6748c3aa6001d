"""The machine's verdict beside a training's alert: it never holds a message back."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from tocsin.actions.alert_email import alert_email
from tocsin.actions.beside import machine_findings
from tocsin.actions.summary_email import summary_email

RUN, MACHINE = "s3://b/jobs/j1/debug-output", "s3://b/jobs/j1/profiler-output"


def finding(make_alert: Any, **fields: Any) -> Any:
    return make_alert(
        Run=MACHINE,
        RuleConfigurationName="InputBottleneck",
        Rule="InputBottleneck",
        StatusDetails="node_0 waits for data 50 % of the time",
        Step=29923271,
        **fields,
    )


def test_rules_that_fire_in_the_machine_run_are_named(make_alert: Any) -> None:
    asked: list[str] = []
    late = finding(make_alert, Sequence=7)
    early = finding(make_alert, Sequence=3)
    over = finding(make_alert, Sequence=4, RuleEvaluationStatus="InProgress")

    def known(run: str) -> Any:
        asked.append(run)
        return [late, over, early]

    assert machine_findings(RUN, known) == [early, late]
    assert asked == [MACHINE]
    assert machine_findings(MACHINE, known) is None
    assert asked == [MACHINE]
    assert machine_findings(RUN, lambda run: None) is None


def test_what_fails_or_takes_long_holds_nothing_back() -> None:
    hangs = threading.Event()

    def fails(run: str) -> Any:
        raise OSError(run)

    def slow(run: str) -> Any:
        hangs.wait(30)

    assert machine_findings(RUN, fails) is None
    assert machine_findings(RUN, slow, longest=0.01) is None
    hangs.set()


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (None, None),
        ([], "The machine at that time: no machine rule fires."),
        (
            ["firing"],
            "  InputBottleneck, warning since 2026-11-23 01:11 UTC: node_0 waits for data 50 %",
        ),
        (["firing"] * 7, "\n  and 2 more"),
    ],
)
def test_mails_name_the_machines_verdict(
    world: Any, make_alert: Any, ask: Any, make_summary: Any, found: Any, says: str | None
) -> None:
    alert = finding(make_alert, Severity="warning")
    world.machine = None if found is None else [alert for _ in found]
    for text in (
        alert_email(ask("email"), world.lookups),
        summary_email(make_summary(), world.lookups),
    ):
        assert ("The machine" in text) is (says is not None)
        assert (says or "") in text

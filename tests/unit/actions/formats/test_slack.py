from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unicodedata import category

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tocsin.actions.formats.slack import slack_payload
from tocsin.rules import get_rule

RUN = "s3://captures/jobs/j1/debug-output"


def alert(**fields: Any) -> dict[str, Any]:
    return {
        "TrainingJobName": "j1",
        "Run": RUN,
        "RuleConfigurationName": "eval-loss",
        "Rule": "LossNotDecreasing",
        "RuleEvaluationStatus": "IssuesFound",
        "StatusDetails": "loss is nan",
        "Severity": "critical",
        "Step": 120,
        "Mode": "TRAIN",
        "ModeStep": 100,
        "Tensor": "loss",
        "Evidence": {"loss": "NaN", "threshold": 1e-7, "unknown": None},
        "DedupId": "d1",
        **fields,
    }


def event(**fields: Any) -> dict[str, Any]:
    kind = "Tocsin Alert"
    base = {"detail-type": kind, "id": "k", "reason": "", "TrainingJobName": "j1", "Run": RUN}
    return {**base, **fields}


def texts(payload: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for block in payload["blocks"]:
        yield from block.get("elements", ()) or (block["text"],)


ADVICE = f"What to do: {get_rule('LossNotDecreasing').advice}"


def shown(payload: dict[str, Any]) -> list[str]:
    return [text["text"] for text in texts(payload)]


def test_says_what_fires_and_what_was_done() -> None:
    payload = slack_payload(
        event(
            firing=[alert(), alert(RuleConfigurationName="b", Severity="warning", Evidence={})],
            resolved=[alert(RuleConfigurationName="c"), alert(RuleConfigurationName="d")],
            more=["e"],
            ongoing=["f", "g"],
            stop={"Outcome": "already_stopped", "Detail": "training job j1 was Completed"},
        )
    )
    assert payload["text"] == "critical: eval-loss and 1 more in j1"
    assert shown(payload) == [
        payload["text"],
        (
            "critical: eval-loss at step 120 (TRAIN step 100)\nloss is nan\n"
            f"loss = NaN, threshold = 1e-07\nTensor: loss\n{ADVICE}"
        ),
        f"warning: b at step 120 (TRAIN step 100)\nloss is nan\nTensor: loss\n{ADVICE}",
        "Also: e",
        "Resolved: c, d",
        "Still firing: f, g",
        "Stopping the job: already stopped. training job j1 was Completed",
        f"Run: {RUN}",
    ]


def test_says_that_a_rule_is_resolved() -> None:
    payload = slack_payload(event(resolved=[alert(Mode=None)]))
    assert payload["text"] == "resolved: eval-loss in j1"
    assert shown(payload)[1:] == ["Resolved: eval-loss", f"Run: {RUN}"]


@pytest.mark.parametrize(
    ("statuses", "steps", "title", "text"),
    [
        (
            {"a": "NoIssuesFound", "b": "IssuesFound", "c": "Error", "d": "NotApplicable"},
            {"evaluated": 50, "first": 0, "last": 490},
            "j1 has ended: IssuesFound",
            (
                "50 steps evaluated, the last was 490. "
                "2 of 4 rules need attention: b is IssuesFound, c is Error"
            ),
        ),
        (
            {"a": "NoIssuesFound"},
            {"evaluated": 0},
            "j1 has ended: NoIssuesFound",
            "0 steps evaluated. 0 of 1 rules need attention",
        ),
    ],
)
def test_says_how_a_job_has_ended(
    statuses: dict[str, str], steps: dict[str, int], title: str, text: str
) -> None:
    summary = {
        "TrainingJobName": "j1",
        "Run": RUN,
        "DedupId": "d",
        "Steps": steps,
        "RuleEvaluationStatus": title.rpartition(" ")[2],
        "DebugRuleEvaluationStatuses": [
            {"RuleConfigurationName": name, "RuleEvaluationStatus": status}
            for name, status in statuses.items()
        ],
    }
    payload = slack_payload(event(summary=summary))
    assert shown(payload) == [title, text, f"Run: {RUN}"]


def test_a_job_without_rules_ends_too() -> None:
    summary = {"TrainingJobName": "j1", "Run": RUN, "DedupId": "d"}
    assert slack_payload(event(summary=summary))["text"] == "j1 has ended: no rules"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("<!channel> a&b", "&lt;!channel&gt; a&amp;b"),
        ("<https://evil.example.com|Log in>", "&lt;https://evil.example.com|Log in&gt;"),
        ("a\x1b[31m\nb\u202e", "a [31m b"),
    ],
)
def test_names_are_no_markup(name: str, text: str) -> None:
    payload = slack_payload(event(firing=[alert(RuleConfigurationName=name)]))
    assert payload["text"] == f"critical: {text} in j1"
    assert shown(payload)[1].startswith(f"critical: {text} at step 120")


def test_a_storm_stays_within_the_limits() -> None:
    storm = [alert(RuleConfigurationName=f"rule-{n}") for n in range(200)]
    payload = slack_payload(event(firing=storm, more=["last"]))
    assert len(payload["blocks"]) <= 50
    assert any("rule-39 and 161 more" in text for text in shown(payload))


_TEXTS = st.text(st.characters(codec="utf-8") | st.sampled_from("<>&\n*@"), min_size=1)


@settings(max_examples=40, deadline=None)
@given(name=_TEXTS.map(lambda text: (text * 60)[:1024]), long=_TEXTS, many=st.integers(0, 60))
def test_any_text_fits(name: str, long: str, many: int) -> None:
    loud = alert(
        RuleConfigurationName=name,
        StatusDetails=long * 300,
        Tensor=long * 300,
        Evidence={f"{n}{long}": long * 9 for n in range(20)},
    )
    stop = {"Outcome": "failed", "Detail": long * 300}
    payload = slack_payload(
        event(firing=[loud] * many, resolved=[loud], more=[name] * many, stop=stop)
    )
    assert len(payload["blocks"]) <= 50
    for text in texts(payload):
        limit = 150 if text["text"] == shown(payload)[0] else 3000
        assert 1 <= len(text["text"]) <= limit
        assert text["type"] == "plain_text"
    for text in (payload["text"], *shown(payload)):
        assert not set("<>") & set(text)
        bare = text.replace("&amp;", "").replace("&lt;", "").replace("&gt;", "")
        assert "&" not in bare
        assert all(category(char)[0] != "C" for char in text.replace("\n", ""))


@pytest.mark.parametrize(
    ("page", "labels"),
    [
        ("https://s3.example/r?X=1", ["Report", "Report in the console"]),
        ("https://s3.example/" + "r" * 3000, ["Report in the console"]),
    ],
)
def test_the_report_is_a_button_if_slack_has_room(page: str, labels: list[str]) -> None:
    report = {"Page": page, "Console": "https://c.example/"}
    payload = slack_payload(event(firing=[alert()], report=report))
    buttons = payload["blocks"][-1]["elements"]
    assert [button["text"]["text"] for button in buttons] == labels
    assert buttons[-1]["url"] == "https://c.example/"

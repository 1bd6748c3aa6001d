"""The event of a webhook as Teams, Discord, Google Chat, PagerDuty and CloudEvents take it."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tocsin import installing
from tocsin.actions.formats import FORMATS, Format
from tocsin.actions.formats.cloud_events import cloud_event
from tocsin.actions.formats.discord import discord_payload
from tocsin.actions.formats.google_chat import google_chat_payload
from tocsin.actions.formats.pagerduty import pagerduty_payload
from tocsin.actions.formats.teams import teams_payload
from tocsin.actions.webhook import Rejected
from tocsin.rules import get_rule

RUN = "s3://captures/jobs/j 1/debug-output"
ENDED = "2026-01-01T00:00:00Z"
SUMMARY = {"TrainingJobName": "j1", "Run": RUN, "DedupId": "d", "EvaluatedAt": ENDED}


def alert(**fields: Any) -> dict[str, Any]:
    return {
        "TrainingJobName": "j1",
        "Run": RUN,
        "RuleConfigurationName": "eval-loss",
        "Rule": "LossNotDecreasing",
        "RuleEvaluationStatus": "IssuesFound",
        "StatusDetails": "loss is nan",
        "Severity": "warning",
        "Step": 120,
        "Evidence": {"loss": "NaN"},
        "DedupId": "d1",
        "EvaluatedAt": "2026-01-02T00:00:00Z",
        **fields,
    }


def event(**fields: Any) -> dict[str, Any]:
    kind = "Tocsin Run Summary" if "summary" in fields else "Tocsin Alert"
    base = {"detail-type": kind, "id": "k", "reason": "", "TrainingJobName": "j1", "Run": RUN}
    return {**base, **fields}


def lines(payload: dict[str, Any]) -> list[str]:
    """The blocks of a card as text."""
    (attachment,) = payload["attachments"]
    body = attachment["content"]["body"]
    return ["".join(run["text"] for run in block["inlines"]) for block in body]


def test_every_format_has_a_body() -> None:
    assert {*FORMATS} == {*get_args(Format)}


GOOD = {"FirstSign": 25, "Step": 24, "Checkpoint": "s3://b/19.pt", "CheckpointStep": 19}
STOPPED = {"Outcome": "done", "Detail": "asked SageMaker to stop training job j1"}
LEFT = {"Steps": 400, "Hours": 1.2, "Usd": 3.67}


@pytest.mark.parametrize(
    "form", ["slack", "teams", "discord", "googlechat", "pagerduty", "cloudevents", "json"]
)
def test_every_format_has_the_last_good_step_and_what_the_stop_saves(form: Format) -> None:
    firing = [alert(LastGood={**GOOD, "FirstSign": 99}), alert(LastGood=GOOD, StopSaves=LEFT)]
    body = str(FORMATS[form](event(firing=firing, stop=STOPPED))).replace("\\", "")
    if form in ("cloudevents", "json"):
        assert str(GOOD) in body
        assert str(LEFT) in body
        return
    assert "step 24; checkpoint of step 19: s3://b/19.pt" in body
    assert (
        "asked SageMaker to stop training job j1. Not run: 400 planned steps, 1.2 hours, $3.67"
        in body
    )
    refused = FORMATS[form](event(firing=firing, stop={**STOPPED, "Outcome": "refused"}))
    assert "Not run" not in str(refused)


def test_pagerduty_has_a_key_for_each() -> None:
    firing = [alert(LastGood=GOOD, StopSaves=LEFT)]
    details = pagerduty_payload(event(firing=firing, stop=STOPPED))["payload"]["custom_details"]
    assert details["Last good"] == "step 24; checkpoint of step 19: s3://b/19.pt"
    assert details["Stopping the job"].endswith("Not run: 400 planned steps, 1.2 hours, $3.67")


def test_a_summary_says_what_was_not_run() -> None:
    texts = lines(teams_payload(event(summary={**SUMMARY, "NotRun": {"Steps": 400}})))
    assert "Not run: 400 planned steps, an unknown time, at an unknown price. " in texts[1]


def test_the_rules_page_is_linked_once_it_is_published(monkeypatch: pytest.MonkeyPatch) -> None:
    page = "/docs/rules/LossNotDecreasing.html"
    chats: list[Format] = ["slack", "teams", "discord", "googlechat", "pagerduty"]
    shown = event(firing=[alert()])
    assert not [form for form in chats if page in str(FORMATS[form](shown))]
    monkeypatch.setattr(installing, "PUBLISHED", True)
    assert [form for form in chats if page in str(FORMATS[form](shown))] == chats
    homemade = event(firing=[alert(Rule="Homemade")])
    assert not [form for form in chats if "/docs/rules/" in str(FORMATS[form](homemade))]


def test_teams_shows_a_card() -> None:
    report = {"Page": "https://r.example/", "Console": ""}
    payload = teams_payload(event(firing=[alert(Severity="critical")], report=report))
    advice = get_rule("LossNotDecreasing").advice
    assert lines(payload) == [
        "critical: eval-loss in j1",
        f"critical: eval-loss at step 120\nloss is nan\nloss = NaN\nWhat to do: {advice}",
        f"Run: {RUN}",
    ]
    card = payload["attachments"][0]["content"]
    assert card["body"][0]["inlines"][0]["color"] == "attention"
    assert card["actions"] == [
        {"type": "Action.OpenUrl", "title": "Report", "url": "https://r.example/"}
    ]
    assert lines(teams_payload(event(summary=SUMMARY)))[0] == "j1 has ended: no rules"


@settings(max_examples=20, deadline=None)
@given(name=st.text(min_size=1).map(lambda text: (text * 400)[:1024]), many=st.integers(1, 60))
def test_any_alert_fits_into_a_card_and_is_no_markup(name: str, many: int) -> None:
    loud = alert(RuleConfigurationName=name, StatusDetails=name * 3, Tensor=name)
    payload = teams_payload(event(firing=[loud] * many, more=[name] * many))
    assert len(msgspec.json.encode(payload)) < 28_000
    body = payload["attachments"][0]["content"]["body"]
    assert {run["type"] for block in body for run in block["inlines"]} == {"TextRun"}


def test_pagerduty_has_one_incident_for_a_run() -> None:
    first = pagerduty_payload(event(firing=[alert(), alert(Severity="critical")]))
    assert (first["event_action"], first["payload"]["severity"]) == ("trigger", "critical")
    assert first["payload"]["source"] == RUN
    assert list(first["payload"]["custom_details"]) == ["eval-loss"]
    still = pagerduty_payload(event(resolved=[alert()], ongoing=["other"], severity="critical"))
    assert (still["event_action"], still["payload"]["severity"]) == ("trigger", "critical")
    assert still["payload"]["summary"] == "critical: other in j1"
    assert still["payload"]["custom_details"] == {"Resolved": "eval-loss", "Still firing": "other"}
    milder = pagerduty_payload(
        event(firing=[alert(Severity="info")], ongoing=["other"], severity="critical")
    )
    assert milder["payload"]["severity"] == "critical"
    over = [
        pagerduty_payload(event(resolved=[alert()])),
        pagerduty_payload(event(withdrawn=[alert()])),
    ]
    assert [each["event_action"] for each in over] == ["resolve", "resolve"]
    assert {each["dedup_key"] for each in (first, still, *over)} == {first["dedup_key"]}
    other = pagerduty_payload({**event(firing=[alert()]), "Run": "s3://captures/jobs/j2"})
    assert other["dedup_key"] != first["dedup_key"]
    assert len(first["dedup_key"]) <= 255


def test_pagerduty_takes_no_summary() -> None:
    with pytest.raises(Rejected, match=r"notify\.summary"):
        pagerduty_payload(event(summary=SUMMARY))


@settings(max_examples=20, deadline=None)
@given(name=st.text(min_size=1).map(lambda text: (text * 400)[:1024]))
def test_any_alert_fits_into_an_incident(name: str) -> None:
    loud = alert(RuleConfigurationName=name, StatusDetails=name * 9, Tensor=name)
    payload = pagerduty_payload(event(firing=[loud] * 60))["payload"]
    assert 1 <= len(payload["summary"]) <= 1024
    assert len(msgspec.json.encode(payload)) < 512_000


def test_a_cloud_event_has_the_event_as_its_data() -> None:
    given_ = event(firing=[alert(), alert(EvaluatedAt="2026-01-03T00:00:00Z")])
    assert cloud_event(given_) == {
        "specversion": "1.0",
        "type": "tocsin.alert",
        "source": "s3://captures/jobs/j%201/debug-output",
        "id": "k",
        "subject": "j1",
        "time": "2026-01-03T00:00:00Z",
        "datacontenttype": "application/json",
        "data": given_,
    }
    ended = cloud_event(event(summary=SUMMARY))
    assert (ended["type"], ended["time"]) == ("tocsin.run.summary", ENDED)
    assert "time" not in cloud_event(event(firing=[alert(EvaluatedAt=None)]))


LOUD = "[free](https://evil.example) <users/all> @everyone **x**"


def test_discord_shows_an_embed_without_markup_of_the_run() -> None:
    report = {"Page": "https://r.example/", "Console": ""}
    payload = discord_payload(event(firing=[alert(StatusDetails=LOUD)], report=report))
    (embed,) = payload["embeds"]
    assert embed["title"] == "warning: eval-loss in j1"
    assert (embed["url"], embed["color"]) == ("https://r.example/", 0xE67E22)
    advice = get_rule("LossNotDecreasing").advice.split()[0]
    assert f"What to do: {advice}" in embed["description"]
    assert r"\[free\]\(https://evil.example\)" in embed["description"]
    assert r"\@everyone" in embed["description"]
    assert payload["allowed_mentions"] == {"parse": []}


def test_google_chat_shows_a_card_without_markup_of_the_run() -> None:
    report = {"Page": "https://r.example/", "Console": ""}
    payload = google_chat_payload(event(firing=[alert(StatusDetails=LOUD)], report=report))
    card = payload["cardsV2"][0]["card"]
    assert card["header"] == {"title": "warning: eval-loss in j1"}
    first, *_, buttons = card["sections"][0]["widgets"]
    assert "&lt;users/all&gt;" in first["textParagraph"]["text"]
    (button,) = buttons["buttonList"]["buttons"]
    assert button["onClick"]["openLink"] == {"url": "https://r.example/"}

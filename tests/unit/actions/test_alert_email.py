from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tocsin import installing, rules
from tocsin.actions import ActionOutcome, Links, Result
from tocsin.actions.alert_email import Explanation, alert_email, explain
from tocsin.actions.email_parts import MOST_BYTES
from tocsin.actions.headline import short, subject
from tocsin.actions.topic import email

STOPPED = Result(ActionOutcome.DONE, "asked SageMaker to stop training job j1")
ADVICE = (
    "Use ReLU-like activations, residual connections or normalisation layers, and an "
    "initialisation that suits the activation (He for ReLU, Glorot for tanh)."
)
SNS_LIMIT = 256 << 10
ODD = {
    "long": {
        "TrainingJobName": "j" * 1024,
        "RuleConfigurationName": "r" * 1024,
        "Rule": "k" * 1024,
        "Run": "s3://captures/" + "p" * 1000,
        "StatusDetails": "d" * 10_000,
        "Tensor": "t" * 10_000,
        "Worker": "w" * 10_000,
        "Mode": "m" * 10_000,
        "Reason": "x" * 10_000,
        "Step": 10**18 - 1,
        "Severity": "critical",
        "Evidence": {f"e{number}" * 100: 1.0 for number in range(1000)},
    },
    "unicode": {
        "TrainingJobName": "実験\u202e-ü",
        "RuleConfigurationName": "Verlust\r\nBcc: all@example.com",
        "StatusDetails": "line\nbreak\x00",
        "Tensor": "层/权重:0",
    },
    "bare": {
        "Step": None,
        "Mode": None,
        "ModeStep": None,
        "Worker": None,
        "Tensor": "",
        "Reason": None,
        "Evidence": {},
        "StatusDetails": "",
        "EvaluatedAt": None,
    },
    "not finite": {"Evidence": {"loss": "NaN", "limit": "Infinity", "gone": None}},
}
STOPS = [None, *(Result(outcome, "d" * 3000) for outcome in ActionOutcome)]


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
@pytest.mark.parametrize("stop", STOPS, ids=lambda stop: stop.outcome if stop else "none")
@pytest.mark.parametrize("number", [1, 400])
def test_texts_fit_whatever_is_in_them(
    ask: Any, make_alert: Any, make_world: Any, odd: Any, stop: Result | None, number: int
) -> None:
    alert = make_alert(**odd)
    world = make_world(recent={alert.tensor: [(10**18 + step, -1e-300) for step in range(32)]})
    many = (alert,) * number
    for reason in ("first_notification", "repeat_interval"):
        request = ask("email", resolved=many, ongoing=many, stop=stop, reason=reason)
        for each in (request, ask("email", *[odd] * number, stop=stop, reason=reason)):
            lines = subject(each) + short(each)
            assert len(subject(each)) < 100
            assert len(short(each)) < 160
            assert lines.isascii()
            assert lines.isprintable()
            body = alert_email(each, world.lookups)
            assert len(body.encode()) <= MOST_BYTES
            assert body.replace("\n", "").isprintable()
            assert "tocsin status " in body


@pytest.mark.parametrize("text", ["実", '"', "\\", "😀"])
def test_the_largest_fits_into_a_message(ask: Any, world: Any, text: str) -> None:
    fields = {"StatusDetails": text * 9999, "Tensor": text * 999, "Run": "s3://aaa/" + "'" * 1000}
    evidence = {f"{text * 70}{number}": 1.0 for number in range(100)}
    request = ask("email", *[{**fields, "Evidence": evidence}] * 400)
    email(request, *world.ports)
    [message] = world.messages()
    assert len(message.texts["email"].encode()) <= MOST_BYTES
    assert len(msgspec.json.encode(message.texts)) + 4096 < SNS_LIMIT


def test_details_give_way_where_the_text_is_too_long(ask: Any, world: Any) -> None:
    fields = {"StatusDetails": "実" * 1000, "Tensor": "実" * 500, "Worker": "実" * 200}
    evidence = {"実" * 70 + str(number): 1.0 for number in range(9)}
    alert = {**fields, "RuleConfigurationName": "実" * 200, "Evidence": evidence}
    resolved = ask("email", *[alert] * 40).firing
    body = alert_email(
        ask("email", *[alert] * 40, resolved=resolved, ongoing=resolved), world.lookups
    )
    assert len(body.encode()) == pytest.approx(MOST_BYTES, abs=20)
    assert "\n[cut]\n\nJob:      j1\n" in body
    assert body.endswith("--for 2h --reason '…'\n")


def test_email(ask: Any, make_world: Any) -> None:
    world = make_world(
        recent={"gradient/fc1": [(100, 2e-7), (110, 1e-7), (120, 3.1e-9)]},
        links=Links("https://console.example.com/dashboard"),
    )
    assert alert_email(ask("email", stop=STOPPED), world.lookups) == (
        f"""\
VanishingGradient fired in training job j1.

Stop requested: asked SageMaker to stop training job j1.

Gradients of a layer have become too small to learn from.

the mean |gradient| of gradient/fc1 is 3.1e-09, below the threshold 1e-07

Step:     120 (TRAIN step 120)
Tensor:   gradient/fc1
Worker:   worker_0
Reason:   below_threshold
Numbers:  abs_mean = 3.1e-09, threshold = 1e-07
Recent:   █▄▁ abs_mean: min 3.1e-09, max 2e-07, last 3.1e-09, steps 100 to 120
Severity: warning
Time:     2026-01-02T03:04:05Z

What to do: {ADVICE}

Job:      j1
Run:      s3://captures/jobs/j1/debug-output

To see more:
  tocsin status s3://captures/jobs/j1/debug-output --actions
  tocsin check s3://captures/jobs/j1/debug-output
  https://console.example.com/dashboard

To silence this for two hours:
  tocsin silence add --job j1 --rule VanishingGradient --for 2h --reason '…'
"""
    )


@pytest.mark.parametrize(
    ("good", "said"),
    [
        (
            {"FirstSign": 25, "Step": 24, "Checkpoint": "s3://b/19.pt", "CheckpointStep": 19},
            "step 24; checkpoint of step 19: s3://b/19.pt",
        ),
        (
            {"FirstSign": 25},
            "no step was judged healthy; no model checkpoint before step 25",
        ),
    ],
)
def test_names_the_last_good_step_and_checkpoint(
    ask: Any, world: Any, good: dict[str, Any], said: str
) -> None:
    lines = alert_email(ask("email", {"LastGood": good}), world.lookups).splitlines()
    (line,) = [line for line in lines if line.startswith("Last good:")]
    assert line == f"Last good: {said}"
    assert "Last good" not in alert_email(ask("email", {}), world.lookups)


def test_says_what_a_stop_saves(ask: Any, world: Any) -> None:
    left = {"StopSaves": {"Steps": 400, "Hours": 1.2, "Usd": 3.67}}
    done, refused = (
        alert_email(ask("email", left, stop=Result(outcome, "why")), world.lookups)
        for outcome in (ActionOutcome.DONE, ActionOutcome.REFUSED)
    )
    assert "Stop requested: why. Not run: 400 planned steps, 1.2 hours, $3.67.\n" in done
    assert "Not run" not in refused


def test_links_to_the_rules_page(ask: Any, world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "More:" not in alert_email(ask("email"), world.lookups)
    monkeypatch.setattr(installing, "PUBLISHED", True)
    assert (
        "\n\nMore: https://example.com/tocsin/docs/rules/VanishingGradient.html\n\n"
        in alert_email(ask("email"), world.lookups)
    )


def test_a_rule_with_a_name_of_its_own_that_nobody_knows(ask: Any, world: Any) -> None:
    fields = {"RuleConfigurationName": "grads", "Rule": "Homemade"}
    body = alert_email(ask("email", fields), world.lookups)
    assert body.startswith("grads (Homemade) fired in training job j1.\n\n")
    assert "What to do" not in body
    assert "Recent" not in body


def test_several_the_first_in_full_the_others_in_a_line(ask: Any, world: Any) -> None:
    firing = [{"RuleConfigurationName": f"r{number}"} for number in range(25)]
    body = alert_email(ask("email", *firing), world.lookups)
    assert body.startswith("25 rules fired in training job j1.\n\n")
    assert "\n\n5. r4 (VanishingGradient)\n\n" in body
    assert body.count("Tensor: ") == 5
    assert "  r5 (VanishingGradient), warning at step 120: the mean |gradient|" in body
    assert "  r19 (VanishingGradient)" in body
    assert "  r20 (VanishingGradient)" not in body
    assert "  and 5 more\n" in body


def test_resolved_rules_and_those_that_still_fire(ask: Any, world: Any, make_alert: Any) -> None:
    resolved = (make_alert(RuleConfigurationName="a", StatusDetails=""),)
    others = (make_alert(RuleConfigurationName="b", Severity="critical"),)
    body = alert_email(ask("email", resolved=resolved, ongoing=others), world.lookups)
    assert body.startswith("a (VanishingGradient) is resolved in training job j1.\n\n")
    assert "Resolved:\n  a (VanishingGradient), warning at step 120\n" in body
    assert (
        "Still firing, notified before:\n  b (VanishingGradient), critical at step 120: the mean"
        in body
    )
    assert "silence" not in body
    assert "stopped" not in body
    two = alert_email(ask("email", resolved=resolved * 2), world.lookups)
    assert two.startswith("2 rules are resolved in training job j1.")


def test_what_nobody_judged_healthy_is_withdrawn(ask: Any, world: Any, make_alert: Any) -> None:
    edited = make_alert(RuleEvaluationStatus="InProgress", Reason="edited", StatusDetails="why")
    request = ask("email", withdrawn=(edited,))
    body = alert_email(request, world.lookups)
    opening = "VanishingGradient is withdrawn, and not judged healthy, in training job j1.\n"
    assert body.startswith(opening)
    assert "Withdrawn, not judged healthy:\n  VanishingGradient, warning at step 120: why" in body
    assert subject(request) == "Tocsin withdrawn: VanishingGradient in j1 at step 120; edited"
    assert "esolved" not in body + short(request)


@pytest.mark.parametrize(
    ("fired", "said"),
    [
        ("2026-01-01T23:04:05Z", "j1 after 4 h."),
        ("2026-01-02T02:59:05.123Z", "j1 after 4 min."),
        ("2026-01-02T02:04:05", "j1 after 60 min."),
        ("2025-12-30T03:04:05Z", "j1 after 3 days."),
        ("2027-01-01T00:00:00Z", "j1 after 0 min."),
        ("soon", "j1."),
        (None, "j1."),
    ],
)
def test_a_repeat_says_for_how_long(ask: Any, world: Any, fired: str | None, said: str) -> None:
    request = ask("email", {"EvaluatedAt": fired}, reason="repeat_interval")
    opening = alert_email(request, world.lookups).partition("\n")[0]
    assert opening == f"VanishingGradient is still firing in training job {said}"


@pytest.mark.parametrize(
    ("stop", "said"),
    [
        (Result(ActionOutcome.ALREADY_STOPPED, "why"), "Job already stopped: why."),
        (Result(ActionOutcome.REFUSED, "why", retry_at=1.0), "Stop refused: why."),
        (Result(ActionOutcome.FAILED, "why"), "Stop failed: why. It will be retried."),
        (Result(ActionOutcome.DRY_RUN, "why"), "Dry run: why."),
        (None, "The job was not stopped: no rule in this message has the action stop."),
    ],
)
def test_email_says_how_stopping_the_job_ended(
    ask: Any, world: Any, stop: Result | None, said: str
) -> None:
    assert f"\n\n{said}\n\n" in alert_email(ask("email", stop=stop), world.lookups)


def test_a_stop_whose_outcome_is_unknown_is_not_mentioned(ask: Any, world: Any) -> None:
    assert "stopped" not in alert_email(ask("email", {"Actions": ["stop", "email"]}), world.lookups)


def test_gives_the_rules_own_meaning_and_advice() -> None:
    found = explain("VanishingGradient")
    assert found.meaning == "Gradients of a layer have become too small to learn from."
    assert found.advice == rules.get_rule("VanishingGradient").advice


def test_an_unknown_rule_has_no_explanation() -> None:
    assert explain("Homemade") == Explanation()


def test_a_broken_registry_keeps_no_email_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> None:
        raise ImportError("somebody's rule does not import")

    monkeypatch.setattr(rules, "find_rule", broken)
    assert explain("VanishingGradient") == Explanation()

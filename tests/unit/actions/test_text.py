from __future__ import annotations

from typing import Any

import pytest
from tocsin.actions import Outcome, Result
from tocsin.actions import _text as text

STOPPED = Result(Outcome.DONE, "asked SageMaker to stop training job j1")
ABOUT = text.About("Gradients are too small to learn from.", "Try another activation.")
ODD = {
    "long": {
        "TrainingJobName": "j" * 1024,
        "RuleConfigurationName": "r" * 1024,
        "Rule": "k" * 1024,
        "Run": "s3://captures/" + "p" * 1000,
        "StatusDetails": "d" * 100_000,
        "Tensor": "t" * 100_000,
        "Worker": "w" * 100_000,
        "Mode": "m" * 100_000,
        "Reason": "x" * 100_000,
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
STOPS = [None, *(Result(outcome, "d" * 3000) for outcome in Outcome)]


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
@pytest.mark.parametrize("stop", STOPS, ids=str)
def test_texts_fit_whatever_they_tell(make_alert: Any, odd: Any, stop: Result | None) -> None:
    alert = make_alert(**odd)
    subject, sms = text.subject(alert, stop), text.sms(alert, stop)
    assert len(subject) < 100
    assert len(sms) < 160
    assert (subject + sms).isascii()
    assert (subject + sms).isprintable()
    body = text.email(alert, stop, ABOUT)
    assert len(body.encode()) < 20_000
    assert body.replace("\n", "").isprintable()


def test_subject(make_alert: Any) -> None:
    assert (
        text.subject(make_alert(), STOPPED)
        == "Tocsin warning: VanishingGradient in j1 at step 120; stop requested"
    )
    assert text.subject(make_alert(Step=None), None) == "Tocsin warning: VanishingGradient in j1"


def test_long_names_share_the_room_and_the_end_stays(make_alert: Any) -> None:
    alert = make_alert(TrainingJobName="j" * 63)
    subject = text.subject(alert, Result(Outcome.REFUSED, ""))
    assert subject.startswith("Tocsin warning: VanishingGradient in jjjjjj")
    assert subject.endswith("jj.. at step 120; stop refused")
    assert len(subject) == 99


def test_sms(make_alert: Any) -> None:
    assert (
        text.sms(make_alert(), STOPPED)
        == "Tocsin: VanishingGradient in j1 at step 120. Stop requested. abs_mean = 3.1e-09"
    )
    assert "loss = NaN" in text.sms(make_alert(Evidence={"loss": "NaN"}), None)


def test_email(make_alert: Any) -> None:
    assert text.email(make_alert(), STOPPED, ABOUT) == (
        """\
VanishingGradient fired in training job j1.

Gradients are too small to learn from.

mean |gradient| 3.1e-09 of gradient/fc1 is below threshold 1e-07

Job:      j1
Run:      s3://captures/jobs/j1/debug-output
Step:     120 (TRAIN step 120)
Tensor:   gradient/fc1
Worker:   worker_0
Reason:   below_threshold
Numbers:  abs_mean = 3.1e-09, threshold = 1e-07
Severity: warning
Time:     2026-01-02T03:04:05Z

Stop requested: asked SageMaker to stop training job j1.

What to look at: Try another activation.

To see more:
  tocsin check s3://captures/jobs/j1/debug-output
  tocsin tensors s3://captures/jobs/j1/debug-output
  tocsin rules VanishingGradient

To silence this: take "email" out of the rule's actions, or the rule out of the watch file: \
s3://captures/jobs/j1/debug-output/watch.json for this run, the deployment's own file for all runs.
"""
    )


def test_email_of_a_rule_with_a_name_of_its_own(make_alert: Any) -> None:
    body = text.email(make_alert(RuleConfigurationName="grads"), None, text.About())
    assert body.startswith("grads (VanishingGradient) fired in training job j1.\n\nmean |gradient|")
    assert "Nothing was stopped: this rule does not ask for it." in body
    assert "tocsin rules VanishingGradient" in body
    assert "What to look at" not in body


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        (Outcome.ALREADY_STOPPED, "Job had stopped: why."),
        (Outcome.REFUSED, "Stop refused: why."),
        (Outcome.FAILED, "Stop failed: why. It will be tried again."),
        (Outcome.DRY_RUN, "Dry run: why."),
    ],
)
def test_email_says_what_came_of_the_stop(make_alert: Any, outcome: Outcome, said: str) -> None:
    assert said in text.email(make_alert(), Result(outcome, "why"), ABOUT)


def test_commands_can_be_pasted(make_alert: Any) -> None:
    alert = make_alert(Run="s3://captures/a b/$(reboot)", Rule="; reboot")
    body = text.email(alert, None, ABOUT)
    assert "tocsin check 's3://captures/a b/$(reboot)'\n" in body
    assert "tocsin rules '; reboot'\n" in body

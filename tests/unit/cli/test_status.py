"""``tocsin status``."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from msgspec.structs import replace
from rich.console import Console
from tocsin.actions import ActionOutcome
from tocsin.alerts import AlertGroup, LogEntry, RuleAlert
from tocsin.aws.coordination import DynamoCoordination
from tocsin.aws.dynamodb import Table
from tocsin.aws.groups import DynamoGroups
from tocsin.aws.s3 import S3Checkpoints, checkpoint_key
from tocsin.aws.silences import DynamoSilences
from tocsin.cli.silences import print_silenced
from tocsin.cli.verdicts import STYLES
from tocsin.evaluation import Checkpoint, check
from tocsin.evaluation.unit_of_work import BEGUN_AGAIN
from tocsin.events import RunSilence, StatusChange
from tocsin.model import RuleStatus, Severity
from tocsin.tensors import LocalStorage
from tocsin.watch import Silence, to_watch

from .conftest import write_run

RUN = "s3://capture/jobs/j1/debug-output"
NOW = 1.7e9


@pytest.fixture
def known(aws, ill, stack):
    """The state bucket of a stack that has seen two runs; one of them has no step yet."""
    store = S3Checkpoints(aws, "state")
    checkpoint, _ = check(LocalStorage(ill))
    store.save(replace(checkpoint, run=RUN), None)
    store.save(Checkpoint("s3://capture/jobs/j2"), None)
    return aws


def test_all_runs(tocsin, known):
    said = tocsin("status", "--state-bucket", "state", "--json")
    assert (said.code, said.err) == (0, "")
    runs = {run["job"]: run for run in said.json["runs"]}
    assert list(runs["j1"]) == [
        "job",
        "run",
        "finished",
        "TrainingJobStatus",
        "last_step",
        "RuleEvaluationStatus",
        "judged",
        "LastModifiedTime",
    ]
    assert {**runs["j1"], "LastModifiedTime": ""} == {
        "job": "j1",
        "run": RUN,
        "finished": True,
        "TrainingJobStatus": None,
        "last_step": 50,
        "RuleEvaluationStatus": "IssuesFound",
        "judged": True,
        "LastModifiedTime": "",
    }
    assert (runs["j2"]["finished"], runs["j2"]["last_step"]) == (False, None)
    assert (runs["j2"]["RuleEvaluationStatus"], runs["j2"]["judged"]) == (None, False)
    people = tocsin("status", "--state-bucket", "state").out
    lines = people.splitlines()
    at = lines.index("IssuesFound  j1")
    assert lines[at + 1].startswith("  step 50, finished, ")
    assert lines[at + 2] == f"  {RUN}"


def test_the_newest_first_and_damage_left_out(tocsin, known):
    times = {}
    for number in range(3, 23):
        key = checkpoint_key(f"s3://capture/jobs/j{number}")
        known.put_object(
            Bucket="state", Key=key, Body=b"rubbish" if number == 12 else _encoded(number)
        )
        times[number] = key
    said = tocsin("status", "--state-bucket", "state", "--json")
    assert len(said.json["runs"]) == 21
    stamps = [run["LastModifiedTime"] for run in said.json["runs"]]
    assert stamps == sorted(stamps, reverse=True)
    (line,) = said.err.splitlines()
    assert line.startswith(f"tocsin: {times[12]}: not a checkpoint")


def _encoded(number):
    from tocsin.evaluation import encode_checkpoint

    return encode_checkpoint(Checkpoint(f"s3://capture/jobs/j{number}"))


def test_one_run(tocsin, known, ill):
    checked = tocsin("check", ill, "--json").json
    for url in (RUN, f"{RUN}/"):
        said = tocsin("status", url, "--state-bucket", "state", "--json")
        report = said.json["report"]
        nothing = {"alerts": [], "silences": [], "unconfirmed": [], "report": report}
        assert (said.code, said.json) == (1, {**checked, "run": RUN, **nothing})
        assert said.err == ""
        assert "/s3/object/state?region=" in report
        assert report.endswith("/report.html")
    people = tocsin("status", RUN, "--state-bucket", "state").out
    assert people.startswith(f"run      {RUN}")
    assert f"\n\nreport: {report}" in people
    nothing_yet = tocsin("status", "s3://capture/jobs/j2", "--state-bucket", "state")
    assert nothing_yet.code == 2
    assert "no rule could judge the run: the run has no complete step" in nothing_yet.err


@pytest.mark.parametrize(
    ("captured", "code", "first", "row"),
    [
        ("gradient", 0, "no loss was captured: 15 rules cannot judge", "NoIssuesFound"),
        ("loss", 2, f"run      {RUN}", "not judged"),
    ],
)
def test_a_run_in_which_little_was_judged(tocsin, stack, aws, tmp_path, captured, code, first, row):
    """What ``check`` says of it, and a list of runs that does not call it healthy."""
    run = write_run(tmp_path / "run", steps=10 if captured == "gradient" else 1, names=captured)
    rules = ["--rule", "LossSpike"] if captured == "loss" else []
    checked = tocsin("check", run, "--json", *rules)
    given = to_watch({"rules": ["LossSpike"]}) if rules else None
    S3Checkpoints(aws, "state").save(replace(check(LocalStorage(run), given)[0], run=RUN), None)
    said = tocsin("status", RUN, "--state-bucket", "state", "--json")
    assert (said.code, said.err) == (code, checked.err) == (checked.code, checked.err)
    assert said.json["not_judged"] == checked.json["not_judged"]
    assert said.json["rules"] == checked.json["rules"]
    assert tocsin("status", RUN, "--state-bucket", "state").out.splitlines()[0] == first
    listed = tocsin("status", "--state-bucket", "state")
    assert any(line.startswith(f"{row} ") for line in listed.out.splitlines())


def test_a_jobs_name_is_enough(tocsin, known):
    whole = tocsin("status", RUN, "--state-bucket", "state")
    assert tocsin("status", "j1", "--state-bucket", "state") == whole
    S3Checkpoints(known, "state").save(Checkpoint("s3://capture/other/j1"), None)
    several = tocsin("status", "j1", "--state-bucket", "state").complaint
    assert several.startswith("job j1 has 2 runs: name one, such as s3://capture/")


def test_a_folder_of_runs(tocsin, ill, tmp_path):
    write_run(tmp_path / "jobs" / "fine", steps=40, names="loss gradient")
    said = tocsin("status", tmp_path)
    assert (said.code, said.err) == (0, "")
    lines = said.out.splitlines()
    jobs = [line.split()[1] for line in lines if not line.startswith(" ")]
    assert jobs == ["fine", "j1"]
    assert f"  {ill}" in lines
    (tmp_path / "empty").mkdir()
    assert "no run is in this folder" in tocsin("status", tmp_path / "empty").complaint


@pytest.mark.parametrize("width", [60, 80])
def test_it_is_whole_on_a_narrow_terminal(tocsin, notified, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    for arguments in ((), (RUN, "--actions")):
        said = tocsin("status", *arguments, "--state-bucket", "state").out
        lines = [line for line in said.splitlines() if RUN not in line and "https://" not in line]
        assert max(map(len, lines)) <= width
    assert "first_notification → done" in said


def test_long_names_stay_on_one_line(tocsin, ill, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    write_run(tmp_path / "runs" / ("long" * 14), steps=40, names="loss gradient")
    listed = tocsin("status", tmp_path / "runs").out.splitlines()
    assert listed[0] == f"NoIssuesFound  {'long' * 14}"
    rule = "VanishingGradient:name=gradients_of_the_whole_network"
    lines = tocsin("check", ill, "--rule", rule).out.splitlines()
    at = lines.index("IssuesFound  gradients_of_the_whole_network (VanishingGradient)")
    assert lines[at + 1] == "  step 20 (TRAIN 2), 4 of 6"


def test_a_run_that_was_begun_again_says_so(tocsin, known):
    store = S3Checkpoints(known, "state")
    stored = store.load(RUN)
    store.save(replace(stored.checkpoint, note=BEGUN_AGAIN), stored.version)
    said = tocsin("status", RUN, "--state-bucket", "state")
    assert said.err == f"tocsin: {RUN}: {BEGUN_AGAIN}\n"


def test_the_bucket_of_the_environment(tocsin, known, monkeypatch):
    monkeypatch.setenv("TOCSIN_STATE_BUCKET", "state")
    assert tocsin("status", RUN).code == 1
    monkeypatch.setenv("TOCSIN_STATE_BUCKET", "another")
    assert tocsin("status", RUN, "--state-bucket", "state").code == 1


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["s3://capture/jobs/j9"], "the stack does not know s3://capture/jobs/j9: `tocsin status`"),
        (
            ["j9"],
            "the stack knows no run of a job j9: `tocsin status` lists all runs; ",
        ),
        (["jobs/j1"], "jobs/j1: no such folder; a run in S3 is s3://bucket/prefix"),
        (["--state-bucket", "nobody-s"], "AWS: "),
        ([RUN, "--state-bucket", "nobody-s"], "AWS: "),
        (["--actions"], "--actions shows one run: name it"),
    ],
)
def test_what_is_refused(tocsin, known, arguments, complaint):
    bucket = () if "--state-bucket" in arguments else ("--state-bucket", "state")
    assert tocsin("status", *arguments, *bucket).complaint.startswith(complaint)


def test_nothing_yet(tocsin, stack):
    assert tocsin("status", "--state-bucket", "state").out == "no run has been evaluated yet\n"
    assert tocsin("status", "--state-bucket", "state", "--json").json == {"runs": []}


def _alert(rule, **more):
    named = {"rule_configuration_name": rule, "rule": rule, "dedup_id": f"{rule}-20"}
    return RuleAlert(
        StatusChange("j1", RUN, rule_evaluation_status=RuleStatus.ISSUES_FOUND, **named, **more),
        at=NOW,
    )


def _logged(run=RUN, **more):
    """A group: one rule notified twice, another silenced, a third just notified."""
    gradient, tensor = "VanishingGradient", "ExplodingTensor"
    log = (
        LogEntry(NOW, gradient, "hold", "group_wait", "email"),
        LogEntry(NOW + 10, gradient, "send", "first_notification", "email", ActionOutcome.DONE),
        LogEntry(NOW + 10, gradient, "send", "fired", "stop", ActionOutcome.REFUSED, "not [b]its"),
        LogEntry(NOW + 11, tensor, "hold", "silenced", "email", None, "7 by a\x1b[2J"),
        LogEntry(NOW + 20, "LossDiverging", "send", "new_in_group", "email"),
    )
    soon = datetime.now(UTC) + timedelta(hours=1)
    own = RunSilence(soon, "j*", "ann", "from the file", "watch file")
    over = RunSilence(datetime(2024, 1, 1, tzinfo=UTC), "*", "ann", "over", "watch file")
    elsewhere = RunSilence(soon, "k*", "ann", "other", "watch file")
    alerts = {
        gradient: _alert(gradient, severity=Severity.CRITICAL),
        tensor: _alert(tensor, silences=(own, over, elsewhere)),
    }
    return AlertGroup(run, **{"job": "j1", "alerts": alerts, "log": log, **more})


@pytest.fixture
def notified(known, stack):
    """A run whose alerts were decided about; the deployment's silences."""
    DynamoGroups(Table(stack, "alerts"), lambda: NOW).save(_logged(), None)
    return DynamoSilences(Table(stack, "alerts"), lambda: NOW)


def test_the_log_for_machines(tocsin, notified):
    alerts = tocsin("status", RUN, "--state-bucket", "state", "--json").json["alerts"]
    assert [list(alert) for alert in alerts] == [
        ["at", "RuleConfigurationName", "decision", "reason", "action", "outcome", "detail"]
    ] * 5
    assert [alert["at"][17:] for alert in alerts] == ["20Z", "30Z", "30Z", "31Z", "40Z"]
    assert alerts[0]["at"] == "2023-11-14T22:13:20Z"
    assert [alert["outcome"] for alert in alerts] == [None, "done", "refused", None, None]


def test_the_last_decisions_and_all_of_them(tocsin, notified):
    said = tocsin("status", RUN, "--state-bucket", "state")
    assert said.out.startswith(f"run      {RUN}")
    lines = said.out.splitlines()
    rows = [line.split() for line in lines if "2023-11-14" in line]
    assert [(row[2], row[3]) for row in rows] == [
        ("VanishingGradient", "email"),
        ("VanishingGradient", "stop"),
        ("ExplodingTensor", "email"),
        ("LossDiverging", "email"),
    ]
    assert "group_wait" not in said.out
    assert "refused: not [b]its" in said.out
    assert "\\x1b[2J" in said.out
    assert "\x1b" not in said.out
    assert "  send: new_in_group → pending" in lines
    whole = tocsin("status", RUN, "--state-bucket", "state", "--actions")
    assert sum("2023-11-14" in line for line in whole.out.splitlines()) == 5
    assert "group_wait" in whole.out


def test_a_run_of_which_nothing_was_decided(tocsin, known):
    url = "s3://capture/jobs/j2"
    said = tocsin("status", url, "--state-bucket", "state", "--actions")
    assert said.code == 2
    assert "no alert has been decided yet" in said.out
    assert "decided" not in tocsin("status", url, "--state-bucket", "state").out


def test_the_silences_that_cover_it(tocsin, notified):
    soon = datetime.now(UTC) + timedelta(hours=2)
    gone = datetime.now(UTC) - timedelta(hours=2)
    loss = notified.add(Silence(soon, "j1", "Loss*", author="bob", reason="known\x1b[2J"))
    critical = notified.add(Silence(soon, severity=Severity.CRITICAL, reason="night"))
    for passed_over in (Silence(soon, "j2"), Silence(soon, rule="No*Such"), Silence(gone)):
        notified.add(passed_over)
    said = tocsin("status", RUN, "--state-bucket", "state", "--json")
    silences = {silence["id"]: silence for silence in said.json["silences"]}
    assert {id_: silence["rules"] for id_, silence in silences.items()} == {
        loss.id: [n for n in _rules(said.json) if n.startswith("Loss")],
        critical.id: ["VanishingGradient"],
        "watch file": ["ExplodingTensor"],
    }
    assert list(silences[loss.id]) == ["id", "job", "until", "author", "reason", "rules"]
    assert datetime.fromisoformat(silences[loss.id]["until"]) == soon.replace(microsecond=0)
    people = tocsin("status", RUN, "--state-bucket", "state").out
    lines = " ".join(people.split())
    assert lines.count("silenced by") == 3
    assert f"silenced by somebody until {soon:%Y-%m-%d %H:%M:%S} UTC ({critical.id})" in lines
    assert "(watch file), from the file: ExplodingTensor" in lines
    assert "\x1b" not in people


@pytest.mark.parametrize(("number", "end"), [(6, "r5"), (7, "r5 and 1 more")])
def test_a_line_names_few_rules(number, end):
    names = [f"r{at}" for at in range(number)]
    one = {"id": "1", "until": "2026-12-01T08:00:00Z", "author": "", "reason": "", "rules": names}
    console = Console(width=200, record=True, file=StringIO())
    print_silenced([one], console)
    assert console.export_text().rstrip().endswith(f"UTC (1): r0, r1, r2, r3, r4, {end}")


def _rules(document):
    return [rule["RuleConfigurationName"] for rule in document["rules"]]


def test_a_run_that_only_alerts_tell_of(tocsin, known, stack):
    url = "s3://capture/elsewhere/j7"
    group = _logged(url, job="theirs")
    DynamoGroups(Table(stack, "alerts"), lambda: NOW).save(group, None)
    said = tocsin("status", url, "--state-bucket", "state", "--json")
    assert said.code == 1
    assert (said.json["job"], said.json["steps"]["evaluated"]) == ("theirs", 0)
    statuses = {rule["RuleEvaluationStatus"] for rule in said.json["rules"]}
    assert (set(_rules(said.json)), statuses) == (set(group.alerts), {"IssuesFound"})
    assert said.json["not_judged"] == {"no_loss": [], "too_few_steps": [], "not_captured": []}
    severities = {rule["Severity"] for rule in said.json["rules"]}
    assert severities == {each.alert.severity for each in group.alerts.values()}
    assert len(said.json["alerts"]) == 5
    assert "ExplodingTensor" in tocsin("status", url, "--state-bucket", "state").out


@pytest.mark.parametrize("run", [RUN, "s3://capture/never/read"])
def test_a_run_that_pauses_says_why(tocsin, known, stack, run):
    coordination = DynamoCoordination(Table(stack, "alerts"), lambda: NOW)
    lease = coordination.take(run, "o", NOW, NOW + 61)
    coordination.abandon(lease, attempts=0, until=4e9, outages=7, trouble="no access to its key")
    said = tocsin("status", run, "--state-bucket", "state", "--json")
    paused = {"reason": "no access to its key", "until": "2096-10-02T07:06:40Z"}
    assert said.json["paused"] == paused
    assert f"{run} is not watched until 2096-10-02T07:06:40Z: no access to its key" in said.err
    coordination.abandon(lease, attempts=0, until=5.0, outages=7, trouble="it was long ago")
    said = tocsin("status", RUN, "--state-bucket", "state", "--json")
    assert "paused" not in said.json


@pytest.mark.parametrize(
    ("variable", "value", "missing"),
    [
        ("TOCSIN_STATE_TABLE", "none", "alerts and silences are not known: AWS: "),
        ("TOCSIN_STATE_TABLE", None, "alerts and silences are not known: there is no stack"),
        ("TOCSIN_TOPIC_ARN", "arn:aws:sns:us-east-1:123456789012:none", "subscriptions are not"),
    ],
)
def test_what_cannot_be_read_has_a_note(
    tocsin, notified, stacks, monkeypatch, variable, value, missing
):
    for _ in range(2):
        stacks.add_client_error("describe_stacks", "ValidationError", "does not exist")
    monkeypatch.setenv(variable, value) if value else monkeypatch.delenv(variable)
    said = tocsin("status", RUN, "--state-bucket", "state", "--json")
    assert said.code == 1
    (line,) = said.err.splitlines()
    assert line.startswith(f"tocsin: {missing}")
    parts = ["unconfirmed"] if "TOPIC" in variable else ["alerts", "silences"]
    assert [key for key in said.json if said.json[key] is None] == [
        "TrainingJobStatus",
        "not_run",
        *parts,
    ]
    assert tocsin("status", RUN, "--state-bucket", "state").code == 1


def test_a_damaged_group_is_noted(tocsin, known, stack):
    stack.put_item(
        TableName="alerts",
        Item={"pk": {"S": f"alerts#{RUN}"}, "body": {"B": b"rubbish"}, "version": {"N": "1"}},
    )
    said = tocsin("status", RUN, "--state-bucket", "state", "--json")
    assert (said.code, said.json["alerts"]) == (1, None)
    assert "not a group of alerts" in said.err


def test_an_unknown_run_says_what_was_not_asked(tocsin, known, monkeypatch):
    monkeypatch.setenv("TOCSIN_STATE_TABLE", "none")
    complaint = tocsin("status", "s3://capture/jobs/j9", "--state-bucket", "state").complaint
    assert "the stack does not know" in complaint
    assert "; alerts and silences are not known: AWS: " in complaint


@pytest.mark.parametrize("form", [(), ("--json",), (RUN,), (RUN, "--json")])
def test_who_gets_nothing_yet(tocsin, known, monkeypatch, form):
    monkeypatch.setattr("tocsin.aws.sns.Topic.unconfirmed", lambda topic: ["a@example.com"])
    said = tocsin("status", *form, "--state-bucket", "state")
    (line,) = said.err.splitlines()
    assert line.startswith("tocsin: a@example.com has not confirmed its subscription")
    if form == (RUN, "--json"):
        assert said.json["unconfirmed"] == ["a@example.com"]


def _stack(name, **outputs):
    return {
        "Stacks": [
            {
                "StackName": name,
                "CreationTime": 0,
                "StackStatus": "CREATE_COMPLETE",
                "Outputs": [{"OutputKey": k, "OutputValue": v} for k, v in outputs.items()],
            }
        ]
    }


@pytest.mark.parametrize(
    ("option", "name"),
    [
        ((), "Tocsin"),
        (("--stack", "Mine"), "Mine"),
        (("--stage", "dev"), "Tocsin-dev"),
        (("--stack", "Mine", "--stage", "dev"), "Mine"),
    ],
)
def test_the_bucket_of_a_stack(tocsin, known, stacks, monkeypatch, option, name):
    if option:  # what is named goes before the environment
        monkeypatch.setenv("TOCSIN_STATE_BUCKET", "another")
    answer = _stack(name, DashboardName="d", StateBucketName="state")
    stacks.add_response("describe_stacks", answer, {"StackName": name})
    assert tocsin("status", RUN, *option).code == 1
    stacks.assert_no_pending_responses()


@pytest.mark.parametrize(("option", "name"), [((), "Tocsin-dev"), (("--stage", ""), "Tocsin")])
def test_the_stage_of_the_environment(tocsin, known, stacks, monkeypatch, option, name):
    monkeypatch.setenv("TOCSIN_STAGE", "dev")
    answer = _stack(name, StateBucketName="state")
    stacks.add_response("describe_stacks", answer, {"StackName": name})
    assert tocsin("status", RUN, *option).code == 1
    stacks.assert_no_pending_responses()


def test_stacks_that_do_not_help(tocsin, stacks):
    stacks.add_response("describe_stacks", _stack("Tocsin", Other="x"))
    assert (
        "stack Tocsin has no output StateBucketName: deploy it again" in tocsin("status").complaint
    )
    stacks.add_client_error("describe_stacks", "ValidationError", "does not exist")
    assert (
        "there is no stack Mine: name the bucket" in tocsin("status", "--stack", "Mine").complaint
    )
    stacks.add_client_error("describe_stacks", "AccessDenied", "no")
    assert tocsin("status").complaint.startswith("AWS: An error occurred (AccessDenied)")


def test_every_status_has_a_style():
    assert set(STYLES) == set(RuleStatus)

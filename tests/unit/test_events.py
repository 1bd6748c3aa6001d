"""The wire: what is published has the promised fields, and what is received is checked."""

from __future__ import annotations

import json
import string
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tocsin import events
from tocsin.events import (
    DETAIL_TYPES,
    MOST_SEVERE_FIRST,
    RUN_SUMMARY,
    SOURCE,
    STATUS_CHANGE,
    WORST_FIRST,
    ActionTaken,
    BadEvent,
    ConfigurationRefused,
    EvaluatedSteps,
    NotifyPolicy,
    RuleStatusEntry,
    RunSilence,
    RunSummary,
    StatusChange,
    checked,
    decode,
    dedup_id,
    encode,
    timestamp,
    worst,
)
from tocsin.model import RuleStatus, Severity, json_number

from tests.events import CHANGE, RUN, SUMMARY

MOST = 200_000
PROMISED: dict[str, Any] = {
    "TrainingJobName": "j1",
    "Run": RUN,
    "RuleConfigurationName": "eval-loss",
    "Rule": "LossNotDecreasing",
    "RuleEvaluationStatus": "IssuesFound",
    "PreviousStatus": "InProgress",
    "StatusDetails": "loss is nan",
    "Severity": "critical",
    "Step": 120,
    "Mode": "TRAIN",
    "ModeStep": 100,
    "Worker": "worker_0",
    "Tensor": "loss",
    "Reason": "not_finite",
    "Evidence": {"loss": "NaN"},
    "Actions": ["stop", "email"],
    "DryRun": False,
    "IndexLastModified": "2023-11-14T22:13:20.250Z",
    "EvaluatedAt": "2023-11-14T22:13:21.000Z",
    "DedupId": "d",
    "RunId": "r",
    "Sequence": 17,
    "Inhibits": ["Overfit"],
    "Notify": {
        "GroupWait": 10.0,
        "GroupInterval": 300.0,
        "RepeatInterval": 14400.0,
        "SendResolved": True,
        "Summary": ["email"],
    },
    "Silences": [
        {
            "Until": "2026-12-01T08:00:00Z",
            "Job": "nightly-*",
            "Author": "ann",
            "Reason": "known",
            "Id": "watch file",
        }
    ],
    "DebugRuleEvaluationStatuses": [],
}


def envelope(detail: Any, kind: str = STATUS_CHANGE, source: str = SOURCE) -> str:
    return json.dumps({"version": "0", "detail-type": kind, "source": source, "detail": detail})


def sent(event: events.Event, most: int = MOST) -> Any:
    return json.loads(encode(event, most))


# ---- what is published


def test_a_change_has_the_promised_fields() -> None:
    assert sent(replace(CHANGE, evaluated_at=timestamp(1_700_000_001.0))) == PROMISED


def test_an_action_has_the_promised_fields() -> None:
    taken = ActionTaken("j1", RUN, "r", "A", "email", "a@b.co", "done", "fired", "sent", "d")
    assert sent(taken) == {
        "TrainingJobName": "j1",
        "Run": RUN,
        "RunId": "r",
        "RuleConfigurationName": "A",
        "Action": "email",
        "Target": "a@b.co",
        "Outcome": "done",
        "Reason": "fired",
        "Detail": "sent",
        "DedupId": "d",
    }


@pytest.mark.parametrize("kind", DETAIL_TYPES)
def test_each_event_says_whose_it_is_and_which(kind: type[events.Event]) -> None:
    names = [field.encode_name for field in msgspec.structs.fields(kind)]
    assert {"TrainingJobName", "Run", "RunId", "DedupId"} <= set(names)
    own = [name for name in names if name != "truncated"]  # a mark of the form, not a field of it
    assert all(set(name) <= set(string.ascii_letters) and name[0].isupper() for name in own)


def test_a_detail_type_is_that_of_one_event() -> None:
    assert len(set(DETAIL_TYPES.values())) == len(DETAIL_TYPES) == 5
    assert {kind.__name__ for kind in DETAIL_TYPES} == {
        "StatusChange",
        "RunSummary",
        "RunNews",
        "ConfigurationRefused",
        "ActionTaken",
    }


def statuses(count: int, details: str, name: str = "rule") -> tuple[RuleStatusEntry, ...]:
    changed = "2023-11-14T22:13:20.000Z"
    return tuple(
        RuleStatusEntry(f"{name}{number}", RuleStatus.IN_PROGRESS, details, changed)
        for number in range(count)
    )


STATUSES = "debug_rule_evaluation_statuses"


@pytest.mark.parametrize(
    ("change", "left", "details", "evidence"),
    [
        ({STATUSES: statuses(200, "fine")}, 200, "fine", {"loss": "NaN"}),
        ({STATUSES: statuses(200, "x" * 1024)}, 200, "", {"loss": "NaN"}),
        ({STATUSES: statuses(200, "ü" * 1024, "実" * 250)}, 200, "", {"loss": "NaN"}),
        ({STATUSES: statuses(200, "\x00" * 1024, "\x00" * 250)}, 100, "", {"loss": "NaN"}),
        ({"evidence": {"x" * 300_000: 1}}, 0, "", {}),
        ({"tensor": "x" * 300_000}, 0, "", {}),
        (
            {
                "actions": ("\x00" * 512,) * 20,
                "status_details": "\x00" * 1024,
                "rule_configuration_name": "\x00" * 256,
            },
            0,
            "",
            {"loss": "NaN"},
        ),
    ],
)
def test_the_least_informative_is_left_out_first(
    change: dict[str, Any], left: int, details: str, evidence: dict[str, Any]
) -> None:
    event = replace(CHANGE, **change)
    assert len(encode(event, MOST).encode()) <= MOST
    found = sent(event)
    others = found["DebugRuleEvaluationStatuses"]
    assert (len(others), found["Evidence"]) == (left, evidence)
    assert {status["StatusDetails"] for status in others} <= {details}
    assert found["Actions"] == list(event.actions)
    assert found["StatusDetails"] == event.status_details


def test_of_too_many_silences_the_longest_is_left() -> None:
    silences = tuple(
        replace(CHANGE.silences[0], reason="\x00" * 512, id=str(at)) for at in range(100)
    )
    found = sent(replace(CHANGE, silences=silences, **{STATUSES: statuses(9, "x")}))
    assert [silence["Id"] for silence in found["Silences"]] == ["99"]
    assert found["Evidence"] == {"loss": "NaN"}


def test_a_summary_of_many_rules_fits() -> None:
    found = sent(replace(SUMMARY, **{STATUSES: statuses(200, "x" * 1024)}))
    assert len(found["DebugRuleEvaluationStatuses"]) == 200


def test_letters_are_sent_as_they_are() -> None:
    assert "実験" in encode(replace(CHANGE, status_details="実験"), MOST)


# ---- any event, there and back

TEXT = st.text(max_size=30)
NAMES = st.text(min_size=1, max_size=30)
JOBS = st.text(string.ascii_letters + "-_ 実ü\"'\\", min_size=1, max_size=20)
RUNS = st.builds("s3://bucket-1/{}/debug-output".format, JOBS)
STEPS = st.none() | st.integers(0, 10**18 - 1)
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
EVIDENCE = st.dictionaries(TEXT, st.booleans() | st.none() | NUMBERS | TEXT, max_size=4)
TIMES = st.none() | st.floats(0, 4e9).map(timestamp)
STATUS = st.sampled_from(RuleStatus)
TUPLES = st.lists(TEXT, max_size=3).map(tuple)
NOTIFY = st.builds(
    NotifyPolicy,
    group_wait=st.floats(allow_nan=False, allow_infinity=False),
    repeat_interval=st.floats(allow_nan=False, allow_infinity=False),
    send_resolved=st.booleans(),
    summary=TUPLES,
)
SILENCES = st.lists(
    st.builds(
        RunSilence,
        until=st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
        job=TEXT,
        author=TEXT,
        reason=TEXT,
        id=TEXT,
    ),
    max_size=3,
).map(tuple)
ENTRIES = st.lists(st.builds(RuleStatusEntry, NAMES, STATUS, TEXT, TIMES), max_size=3).map(tuple)
CHANGES = st.builds(
    StatusChange,
    training_job_name=JOBS,
    run=RUNS,
    rule_configuration_name=NAMES,
    rule=NAMES,
    rule_evaluation_status=STATUS,
    dedup_id=NAMES,
    previous_status=st.none() | STATUS,
    status_details=TEXT,
    severity=st.sampled_from(Severity),
    step=STEPS,
    mode=st.none() | TEXT,
    mode_step=STEPS,
    worker=st.none() | TEXT,
    tensor=st.none() | TEXT,
    reason=st.none() | TEXT,
    evidence=EVIDENCE,
    actions=TUPLES,
    dry_run=st.booleans(),
    index_last_modified=TIMES,
    evaluated_at=TIMES,
    run_id=st.none() | TEXT,
    sequence=st.integers(0, 2**63 - 1),
    inhibits=TUPLES,
    notify=NOTIFY,
    silences=SILENCES,
    debug_rule_evaluation_statuses=ENTRIES,
)
SUMMARIES = st.builds(
    RunSummary,
    training_job_name=JOBS,
    run=RUNS,
    dedup_id=NAMES,
    sequence=st.integers(0, 2**63 - 1),
    ending=st.sampled_from(["marker", "silence", ""]),
    steps=st.builds(EvaluatedSteps, st.integers(0, 10**9), STEPS, STEPS),
    rule_evaluation_status=st.none() | STATUS,
    debug_rule_evaluation_statuses=ENTRIES,
    summary=TUPLES,
    notify=NOTIFY,
    dry_run=st.booleans(),
    evaluated_at=TIMES,
    run_id=st.none() | TEXT,
    silences=SILENCES,
)
REFUSALS = st.builds(
    ConfigurationRefused, JOBS, RUNS, st.none() | TEXT, where=TEXT, detail=TEXT, dedup_id=NAMES
)


@given(CHANGES | SUMMARIES)
def test_what_is_encoded_is_decoded(event: StatusChange | RunSummary) -> None:
    kind = DETAIL_TYPES[type(event)]
    assert decode(envelope(json.loads(encode(event, MOST)), kind)) == event
    if isinstance(event, StatusChange):
        assert checked(event) == event


@given(CHANGES | SUMMARIES | REFUSALS, st.integers(0, 3000))
def test_never_more_bytes_than_asked_for_if_that_can_be(event: Any, most: int) -> None:
    smallest = len(encode(event, 0).encode())
    size = len(encode(event, most).encode())
    assert size <= max(most, smallest)
    assert encode(event, MOST) == msgspec.json.encode(event).decode()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (1e-300, 1e-300),
        (0, 0),
    ],
)
def test_numbers_that_json_lacks_are_text(value: float, expected: Any) -> None:
    event = replace(CHANGE, evidence={"loss": json_number(value)})
    assert sent(event)["Evidence"] == {"loss": expected}
    assert decode(envelope(sent(event))) == event


def test_a_number_that_is_not_finite_makes_no_bad_json() -> None:
    assert sent(replace(CHANGE, evidence={"loss": float("nan")}))["Evidence"] == {"loss": None}


# ---- what is received


def test_decodes_a_change() -> None:
    alert = decode(envelope(PROMISED))
    assert alert == replace(CHANGE, evaluated_at="2023-11-14T22:13:21.000Z")
    assert isinstance(alert, StatusChange)
    assert alert.firing


def test_decodes_the_end_of_a_run() -> None:
    summary = decode(envelope(sent(SUMMARY), RUN_SUMMARY))
    assert summary == SUMMARY


def test_what_may_be_missing_has_defaults() -> None:
    needed = ("TrainingJobName", "Run", "RuleConfigurationName", "Rule", "DedupId")
    alert = decode(envelope({key: PROMISED[key] for key in (*needed, "RuleEvaluationStatus")}))
    assert isinstance(alert, StatusChange)
    assert (alert.actions, alert.evidence, alert.step, alert.run_id) == ((), {}, None, None)
    assert (alert.severity, alert.notify) == (Severity.WARNING, NotifyPolicy())
    assert decode(
        envelope({key: PROMISED[key] for key in ("TrainingJobName", "Run", "DedupId")}, RUN_SUMMARY)
    ) == RunSummary("j1", RUN, "d")


@pytest.mark.parametrize(
    "run",
    [
        "s3://captures",
        "s3://captures/j1",
        "s3://my.bucket-1/a b/Zürich/j1/debug-output",
        "s3://captures/jobs/j1/",
    ],
)
def test_accepts_runs_as_s3_allows_them(run: str) -> None:
    assert decode(envelope({**PROMISED, "Run": run})).run == run


@pytest.mark.parametrize("odd", [[""], ["x" * 513], ["\n"], ["email"] * 65, ["実験"]])
def test_an_odd_action_costs_no_other(odd: list[str]) -> None:
    alert = decode(envelope({**PROMISED, "Actions": [*odd, "stop"]}))
    assert isinstance(alert, StatusChange)
    assert alert.actions == (*odd, "stop")


OF_EITHER: list[tuple[dict[str, Any], str]] = [
    ({"Run": "/var/run"}, "Run"),
    ({"Run": "s3://"}, "Run"),
    ({"Run": "s3://UPPER/j1"}, "Run"),
    ({"Run": "s3://captures/j1\nBcc: x"}, "Run"),
    ({"Run": "s3://captures/j1\n"}, "Run"),
    ({"Run": "s3://captures/" + "x" * 2000}, "Run"),
    ({"Run": None}, "Run"),
    ({"TrainingJobName": ""}, "TrainingJobName"),
    ({"TrainingJobName": "a/b"}, "TrainingJobName"),
    ({"TrainingJobName": "a\r\nb"}, "TrainingJobName"),
    ({"TrainingJobName": "a\n"}, "TrainingJobName"),
    ({"TrainingJobName": "x" * 1025}, "TrainingJobName"),
    ({"TrainingJobName": None}, "TrainingJobName"),
    ({"RuleEvaluationStatus": "IssueFound"}, "RuleEvaluationStatus"),
    ({"DedupId": ""}, "DedupId"),
    ({"DedupId": "x" * 1025}, "DedupId"),
    ({"DedupId": 1}, "DedupId"),
    ({"DryRun": "yes"}, "DryRun"),
    ({"RunId": 7}, "RunId"),
    ({"EvaluatedAt": 1.8e9}, "EvaluatedAt"),
    ({"Sequence": -1}, "Sequence"),
    ({"Sequence": 1.5}, "Sequence"),
    ({"Sequence": None}, "Sequence"),
    ({"Notify": {"GroupWait": "soon"}}, "Notify"),
    ({"Silences": [{"Until": "2026-12-01T08:00:00"}]}, "Silences"),
    ({"Silences": [{"Until": "2026-12-01T08:00:00Z", "Job": 3}]}, "Silences"),
]


@pytest.mark.parametrize(
    ("change", "where"),
    [
        *OF_EITHER,
        ({"RuleConfigurationName": ""}, "RuleConfigurationName"),
        ({"RuleConfigurationName": "x" * 1025}, "RuleConfigurationName"),
        ({"RuleConfigurationName": None}, "RuleConfigurationName"),
        ({"Rule": ""}, "Rule"),
        ({"Rule": "x" * 1025}, "Rule"),
        ({"RuleEvaluationStatus": None}, "RuleEvaluationStatus"),
        ({"PreviousStatus": "Fine"}, "PreviousStatus"),
        ({"StatusDetails": None}, "StatusDetails"),
        ({"Severity": "page"}, "Severity"),
        ({"Step": -1}, "Step"),
        ({"Step": 10**18}, "Step"),
        ({"Step": "1"}, "Step"),
        ({"ModeStep": -1}, "ModeStep"),
        ({"ModeStep": 10**18}, "ModeStep"),
        ({"Mode": 1}, "Mode"),
        ({"Worker": 0}, "Worker"),
        ({"Tensor": ["loss"]}, "Tensor"),
        ({"Reason": 1}, "Reason"),
        ({"Evidence": {"x": [1]}}, "Evidence"),
        ({"Actions": "stop"}, "Actions"),
        ({"Actions": [3]}, "Actions"),
        ({"Inhibits": [None]}, "Inhibits"),
    ],
)
def test_refuses_what_is_wrong_with_a_change_and_says_where(
    change: dict[str, Any], where: str
) -> None:
    with pytest.raises(BadEvent, match=rf"^not an? (Tocsin )?event: .*\$\.{where}\b") as refused:
        decode(envelope({**PROMISED, **change}))
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("change", "where"),
    [
        *OF_EITHER,
        ({"Ending": None}, "Ending"),
        ({"Steps": {"evaluated": "many"}}, "Steps"),
        ({"Steps": 12}, "Steps"),
        ({"Summary": "email"}, "Summary"),
        *(
            ({"DebugRuleEvaluationStatuses": [entry]}, "DebugRuleEvaluationStatuses")
            for entry in (
                {"RuleEvaluationStatus": "IssuesFound"},
                {"RuleEvaluationStatus": "IssuesFound", "RuleConfigurationName": ""},
                {"RuleEvaluationStatus": "IssuesFound", "RuleConfigurationName": "x" * 1025},
                {"RuleEvaluationStatus": "Fine", "RuleConfigurationName": "a"},
            )
        ),
    ],
)
def test_refuses_what_is_wrong_with_a_summary_and_says_where(
    change: dict[str, Any], where: str
) -> None:
    with pytest.raises(BadEvent, match=rf"^not an? (Tocsin )?event: .*\$\.{where}\b") as refused:
        decode(envelope({**sent(SUMMARY), **change}, RUN_SUMMARY))
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize("missing", ["TrainingJobName", "Run", "DedupId", "Rule"])
def test_refuses_what_lacks_a_field(missing: str) -> None:
    lacking = {key: value for key, value in PROMISED.items() if key != missing}
    with pytest.raises(BadEvent, match=f"`{missing}`"):
        decode(envelope(lacking))


@pytest.mark.parametrize(
    "body",
    [
        "",
        "not json",
        "[]",
        "null",
        b"\xff\xfe",
        "{}",
        envelope({}),
        envelope(None),
        envelope(PROMISED, kind="SageMaker Training Job State Change"),
        envelope(PROMISED, kind="Tocsin Action Taken"),
        envelope(PROMISED, kind="x" * 1000 + "\n"),
        envelope(PROMISED, source="aws.sagemaker"),
    ],
)
def test_refuses_other_messages_in_one_line(body: str | bytes) -> None:
    with pytest.raises(BadEvent, match=r"^not an? (Tocsin )?event") as refused:
        decode(body)
    assert len(str(refused.value).splitlines()) == 1
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    "change",
    [{"run": "/var/run"}, {"rule_configuration_name": "x" * 2000}, {"step": -1}, {"sequence": -1}],
)
def test_a_change_that_would_not_be_decoded_is_not_taken(change: dict[str, Any]) -> None:
    with pytest.raises(BadEvent, match="not a Tocsin event"):
        checked(replace(CHANGE, **change))


@pytest.mark.parametrize(
    ("notify", "wait", "repeat"),
    [
        (NotifyPolicy(), 10.0, 14400.0),
        (NotifyPolicy(group_wait=-1.0, repeat_interval=0.0), 0.0, 300.0),
        (NotifyPolicy(group_wait=1e9, repeat_interval=1e9), 900.0, 1e9),
    ],
)
def test_what_is_out_of_bounds_is_brought_within(
    notify: NotifyPolicy, wait: float, repeat: float
) -> None:
    assert (notify.wait, notify.repeat) == (wait, repeat)


# ---- order, names, times


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([], None),
        ([RuleStatus.NOT_APPLICABLE], RuleStatus.NOT_APPLICABLE),
        ([RuleStatus.NOT_APPLICABLE, RuleStatus.NO_ISSUES_FOUND], RuleStatus.NO_ISSUES_FOUND),
        ([RuleStatus.NO_ISSUES_FOUND, RuleStatus.STOPPED], RuleStatus.STOPPED),
        ([RuleStatus.ERROR, RuleStatus.STOPPED], RuleStatus.ERROR),
        (RuleStatus, RuleStatus.ISSUES_FOUND),
        (iter(WORST_FIRST[1:]), RuleStatus.ERROR),
    ],
)
def test_the_worst(found: Any, expected: RuleStatus | None) -> None:
    assert worst(found) is expected


def test_every_status_and_severity_has_its_place() -> None:
    assert sorted(WORST_FIRST) == sorted(RuleStatus)
    assert MOST_SEVERE_FIRST == (Severity.CRITICAL, Severity.WARNING, Severity.INFO)
    assert set(MOST_SEVERE_FIRST) == set(Severity)


def test_an_id_stays_what_it_was() -> None:
    """As an earlier version computed it: an event that it published is not taken for another."""
    found = dedup_id("s3://b/j", None, "A", RuleStatus.ERROR, 0)
    assert found == "d38bebdf79f808ae8eb206aef2032389"
    assert dedup_id("s3://b/j", None, "A", RuleStatus.ERROR, 1) != found


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_700_000_000.25, "2023-11-14T22:13:20.250Z"),
        (1_700_000_000.9999, "2023-11-14T22:13:20.999Z"),
    ],
)
def test_a_time(seconds: float, text: str) -> None:
    assert timestamp(seconds) == text

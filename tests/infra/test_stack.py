"""The template: what is in it, what it allows, what it promises to outsiders."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import pytest
from aws_cdk import App, RemovalPolicy, Stack, Validations
from aws_cdk import aws_s3 as s3
from cdk_nag import AwsSolutionsChecks
from tocsin.tensors import END_MARKER, STOP, WATCH, collections_key, index_key

from .conftest import listed, synthesise

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Synthesised

LOG = {"logs:CreateLogStream", "logs:PutLogEvents"}


def plain(arn: Any) -> str:
    """An ARN with logical ids in it, as text."""
    return json.dumps(arn)


@pytest.fixture(params=["own", "existing"])
def stack(request: pytest.FixtureRequest) -> Synthesised:
    """Both kinds of stack."""
    synthesised: Synthesised = request.getfixturevalue(request.param)
    return synthesised


@pytest.mark.parametrize(
    ("policy", "actions"),
    [  # those of the functions are compared with their calls in test_calls.py
        (
            "ReplaysMachineRole",
            {"lambda:InvokeFunction", "s3:GetObject"}
            | {f"states:{verb}Execution" for verb in ("Start", "Describe", "Stop")},
        ),
        ("TrainingAccess", {"s3:PutObject", "s3:GetObject"}),
    ],
)
def test_a_role_may_do_this_and_no_more(own: Synthesised, policy: str, actions: set[str]) -> None:
    allowed = own.statements(policy)
    assert {action for one in allowed for action in listed(one["Action"])} == actions


def test_no_policy_allows_any_action_or_any_resource(stack: Synthesised) -> None:
    policies = {**stack.all("IAM::Policy"), **stack.all("IAM::ManagedPolicy")}
    assert len(policies) >= 4
    limits = {
        "cloudwatch:PutMetricData": {"StringEquals": {"cloudwatch:namespace": "Tocsin"}},
        "sns:GetSubscriptionAttributes": None,
    }
    for policy in policies.values():
        for statement in policy["PolicyDocument"]["Statement"]:
            assert not [action for action in listed(statement["Action"]) if "*" in action]
            if "NotResource" in statement:  # phones, which have no ARN
                assert statement["Action"] == "sns:Publish"
            elif "*" in listed(statement["Resource"]):
                assert statement["Action"] in limits  # of those that know no resources
                assert statement.get("Condition") == limits[statement["Action"]]


def test_roles_have_no_policies_of_others(stack: Synthesised) -> None:
    for role in stack.all("IAM::Role").values():
        assert "ManagedPolicyArns" not in role


@pytest.mark.parametrize(
    ("policy", "action", "suffixes"),
    [
        (
            "EvaluateRole",
            "s3:PutObject",
            [
                "/jobs/*/training_job_end.ts",
                "/jobs/training_job_end.ts",
                "/checkpoints/*",
                "/traces/*",
            ],
        ),
        ("EvaluateRole", "s3:GetObject", ["/jobs/*", "/checkpoints/*", "/traces/*"]),
        ("ReportRole", "s3:GetObject", ["/jobs/*", "/checkpoints/*", "/reports/*", "/traces/*"]),
        ("ReportRole", "s3:PutObject", ["/reports/*"]),
        ("ReplaysReplayRole", "s3:GetObject", ["/jobs/*", "/checkpoints/*", "/replays/*"]),
        ("ReplaysReplayRole", "s3:PutObject", ["/replays/*"]),
        ("ReplaysMachineRole", "s3:GetObject", ["/replays/*"]),
        ("ActRole", "s3:PutObject", ["/jobs/*/STOP.json", "/jobs/STOP.json"]),
        (
            "ActRole",
            "s3:GetObject",
            ["/jobs/*/index/*", "/jobs/index/*", "/checkpoints/*", "/reports/*"],
        ),
        ("TrainingAccess", "s3:PutObject", ["/jobs/${aws:PrincipalTag/tocsin-prefix}/*"]),
        (
            "TrainingAccess",
            "s3:GetObject",
            [
                "/jobs/${aws:PrincipalTag/tocsin-prefix}/*/STOP.json",
                "/jobs/${aws:PrincipalTag/tocsin-prefix}/*/TRACE.json",
                "/jobs/${aws:PrincipalTag/tocsin-prefix}/*/pace.json",
                "/jobs/${aws:PrincipalTag/tocsin-prefix}/*/watch.json",
                "/jobs/${aws:PrincipalTag/tocsin-prefix}/STOP.json",
                "/jobs/${aws:PrincipalTag/tocsin-prefix}/TRACE.json",
                "/jobs/${aws:PrincipalTag/tocsin-prefix}/pace.json",
                "/jobs/${aws:PrincipalTag/tocsin-prefix}/watch.json",
            ],
        ),
    ],
)
def test_objects_are_limited_to_their_prefix(
    existing: Synthesised, policy: str, action: str, suffixes: list[str]
) -> None:
    resources = [
        resource
        for statement in existing.statements(policy)
        if action in listed(statement["Action"])
        for resource in listed(statement["Resource"])
    ]
    ends = sorted(
        resource["Fn::Join"][1][-1].removeprefix(":s3:::our-runs") for resource in resources
    )
    assert ends == sorted(suffixes)


@pytest.mark.parametrize(
    ("policy", "conditions"),
    [
        (
            "EvaluateRole",
            [
                {"StringLikeIfExists": {"s3:prefix": "checkpoints/*"}},
                {"StringLikeIfExists": {"s3:prefix": "jobs/*"}},
            ],
        ),
        (
            "ActRole",
            [
                {"StringLike": {"s3:prefix": ["jobs/*/index/*", "jobs/index/*"]}},
                {"StringLikeIfExists": {"s3:prefix": "checkpoints/*"}},
            ],
        ),
    ],
)
def test_listing_is_limited_to_the_prefix(
    existing: Synthesised, policy: str, conditions: list[Any]
) -> None:
    found = [
        statement["Condition"]
        for statement in existing.statements(policy)
        if statement["Action"] == "s3:ListBucket"
    ]
    assert sorted(found, key=plain) == conditions


def test_the_customers_key_is_used_where_objects_are(existing: Synthesised) -> None:
    key = "arn:aws:kms:eu-west-1:111122223333:key/0f7c-11"
    uses = {
        policy: {
            action
            for statement in existing.statements(policy)
            if key in listed(statement.get("Resource", []))
            for action in listed(statement["Action"])
        }
        for policy in ("EvaluateRole", "ActRole", "PatrolRole", "TrainingAccess")
    }
    assert uses == {
        "EvaluateRole": {"kms:Decrypt", "kms:GenerateDataKey"},
        "ActRole": {"kms:Decrypt", "kms:GenerateDataKey"},
        "PatrolRole": set(),
        "TrainingAccess": {"kms:Decrypt", "kms:GenerateDataKey"},
    }


def test_nobody_but_the_functions_reaches_the_state(stack: Synthesised) -> None:
    assert "StateBucket" not in plain(stack.statements("TrainingAccess"))
    assert not [one for one in stack.resources("ActRole", "s3:PutObject") if "State" in one]
    assert "StateBucket" not in plain(stack.statements("PatrolRole"))


def test_every_queue_is_closed_and_every_work_queue_has_dead_letters(stack: Synthesised) -> None:
    queues = stack.all("SQS::Queue")
    closed = [
        queue["Ref"]
        for policy in stack.all("SQS::QueuePolicy").values()
        if policy["PolicyDocument"]["Statement"][0]["Effect"] == "Deny"
        for queue in policy["Queues"]
    ]
    assert sorted(closed) == sorted(queues)
    dead = {name for name in queues if "DeadLetters" in name}
    watched = {
        alarm["Dimensions"][0]["Value"]["Fn::GetAtt"][0]
        for alarm in stack.all("CloudWatch::Alarm").values()
        if alarm.get("MetricName") == "ApproximateNumberOfMessagesVisible"
    }
    assert watched == dead
    for name, queue in queues.items():
        assert queue["SqsManagedSseEnabled"] is True
        if name not in dead:
            redrive = queue["RedrivePolicy"]
            assert redrive["maxReceiveCount"] == 5
            assert redrive["deadLetterTargetArn"]["Fn::GetAtt"][0] in dead


def test_messages_come_without_a_window_and_stay_away_long_enough(own: Synthesised) -> None:
    mappings = own.all("Lambda::EventSourceMapping").values()
    assert len(mappings) == 3
    for mapping in mappings:
        queue = own.all("SQS::Queue")[mapping["EventSourceArn"]["Fn::GetAtt"][0]]
        function = own.all("Lambda::Function")[mapping["FunctionName"]["Ref"]]
        assert queue["VisibilityTimeout"] >= 6 * function["Timeout"]
        assert "MaximumBatchingWindowInSeconds" not in mapping
        assert mapping["ScalingConfig"]["MaximumConcurrency"] >= 2
    assert sorted(each["BatchSize"] for each in mappings) == [1, 1, 10]
    # A new account's functions may run 10 at a time, patrol among them.
    assert sum(one["ScalingConfig"]["MaximumConcurrency"] for one in mappings) < 10


def test_a_message_that_fails_does_not_slow_down_those_of_other_runs(own: Synthesised) -> None:
    reporting = [
        mapping["FunctionName"]["Ref"]
        for mapping in own.all("Lambda::EventSourceMapping").values()
        if mapping.get("FunctionResponseTypes") == ["ReportBatchItemFailures"]
    ]
    assert len(reporting) == 2
    assert all("ActionsAct" in name or "Evaluate" in name for name in reporting)


def test_those_who_write_to_their_own_queue_may_go_on_and_no_other(own: Synthesised) -> None:
    loops = {name: f.get("RecursiveLoop") for name, f in own.all("Lambda::Function").items()}
    assert own.one("Lambda::Function", "Evaluate")["RecursiveLoop"] == "Allow"
    assert own.one("Lambda::Function", "ActFunction")["RecursiveLoop"] == "Allow"
    assert sorted(map(str, loops.values())) == ["Allow", "Allow", *["None"] * 4]


@pytest.mark.parametrize(
    ("name", "variables"),
    [
        (
            "Evaluate",
            [
                "TABLE",
                "STATE_BUCKET",
                "EVALUATE_QUEUE_URL",
                "BUS",
                "JOB_METRICS",
                "METRIC_RUN_CAP",
                "CAPTURE_PREFIX",
                "BACKLOG_TURNS",
                "MEMBER_ROLES",
                "PRICES",
            ],
        ),
        (
            "Act",
            [
                "TABLE",
                "BUS",
                "TOPIC_ARN",
                "STATE_BUCKET",
                "ACT_QUEUE_URL",
                "DASHBOARD",
                "EMAILS",
                "PHONES",
                "ALLOWED_RECIPIENTS",
                "WEBHOOKS",
                "SMS_MONTHLY_CAP",
                "STOP_GUARD",
                "STOP_CEILING",
                "EMAIL_RUN_CAP",
                "METRIC_RUN_CAP",
                "DELIVERERS",
                "WEBHOOK_RUN_CAP",
                "CAPTURE_PREFIX",
                "MEMBER_ROLES",
                "RELAUNCH_ROLES",
            ],
        ),
        ("Patrol", ["TABLE", "EVALUATE_QUEUE_URL", "ACT_QUEUE_URL"]),
        ("Report", ["TABLE", "STATE_BUCKET", "REPORT_QUEUE_URL"]),
    ],
)
def test_functions_are_told_what_they_need(
    own: Synthesised, name: str, variables: list[str]
) -> None:
    function = own.one("Lambda::Function", f"{name}Function")
    environment = function["Environment"]["Variables"]
    assert environment.pop("POWERTOOLS_METRICS_NAMESPACE") == "Tocsin"
    assert environment.pop("POWERTOOLS_SERVICE_NAME") == name.lower()
    assert environment.pop("POWERTOOLS_LOG_LEVEL") == "INFO"
    assert sorted(environment) == sorted(f"TOCSIN_{variable}" for variable in variables)
    assert function["Handler"] == "handler.handler"
    assert function["Runtime"] == "python3.13"
    assert len(function["Layers"]) == 1


def test_options_are_written_as_the_functions_read_them(
    own: Synthesised, existing: Synthesised
) -> None:
    assert own.variables("EvaluateFunction")["TOCSIN_JOB_METRICS"] == "false"
    assert existing.variables("EvaluateFunction")["TOCSIN_JOB_METRICS"] == "true"
    expected = {
        "TOCSIN_EMAILS": ("ops@example.com", ""),
        "TOCSIN_PHONES": ("+15551230000", ""),
        "TOCSIN_ALLOWED_RECIPIENTS": ("*@example.com", ""),
        "TOCSIN_WEBHOOKS": ("oncall-slack,pager", ""),
        "TOCSIN_SMS_MONTHLY_CAP": ("0", "100"),
        "TOCSIN_STOP_GUARD": ("3/1h", "10/10m"),
    }
    for name, (given, default) in expected.items():
        assert own.variables("ActFunction")[name] == given
        assert existing.variables("ActFunction")[name] == default


@pytest.mark.parametrize(("kind", "architecture"), [("own", "arm64"), ("existing", "x86_64")])
def test_code_and_layer_are_for_the_same_processor(
    request: pytest.FixtureRequest, kind: str, architecture: str
) -> None:
    stack: Synthesised = request.getfixturevalue(kind)
    for function in stack.all("Lambda::Function").values():
        assert function["Architectures"] == [architecture]
    (layer,) = stack.all("Lambda::LayerVersion").values()
    assert layer["CompatibleArchitectures"] == [architecture]


@pytest.mark.parametrize(("kind", "expected"), [("own", None), ("existing", "VanishingGradient")])
def test_the_watch_file_lies_beside_the_handlers_that_evaluate(
    request: pytest.FixtureRequest, kind: str, expected: str | None
) -> None:
    stack: Synthesised = request.getfixturevalue(kind)
    files = list(stack.folder.glob("asset.*/watch.json"))
    assert len(files) == len(("evaluate", "replay"))
    for file in files:
        assert (file.parent / "handler.py").is_file()
        watch = json.loads(file.read_text())
        assert [rule["rule"] for rule in watch.get("rules", [])] == ([expected] if expected else [])


def test_logs_are_kept_as_long_as_asked(own: Synthesised) -> None:
    assert {log["RetentionInDays"] for log in own.all("Logs::LogGroup").values()} == {30}
    rule = own.one("S3::Bucket", "State")["LifecycleConfiguration"]["Rules"][0]
    assert rule["ExpirationInDays"] == 30


def test_the_own_bucket_notifies_natively(own: Synthesised) -> None:
    (name,) = [name for name in own.all("S3::Bucket") if "Capture" in name]
    resource = own.template["Resources"][name]
    notifications = resource["Properties"]["NotificationConfiguration"]["QueueConfigurations"]
    filters = [one["Filter"]["S3Key"]["Rules"] for one in notifications]
    assert filters == [
        [{"Name": "suffix", "Value": suffix}] for suffix in (".json", "training_job_end.ts")
    ]
    (queue,) = {one["Queue"]["Fn::GetAtt"][0] for one in notifications}
    # S3 tries the queue out when it gets the property: the policy has to be there by then.
    (policy,) = [
        key
        for key, value in own.all("SQS::QueuePolicy").items()
        if value["Queues"] == [{"Ref": queue}]
    ]
    assert policy in resource["DependsOn"]
    (statement,) = [
        one
        for one in own.all("SQS::QueuePolicy")[policy]["PolicyDocument"]["Statement"]
        if one["Principal"] == {"Service": "s3.amazonaws.com"}
    ]
    assert statement["Condition"] == {
        "StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}
    }
    assert not [kind for kind in own.template["Resources"] if "Custom" in kind]


def test_an_existing_bucket_is_watched_and_left_alone(existing: Synthesised) -> None:
    assert not [name for name in existing.all("S3::Bucket") if "Capture" in name]
    rule = existing.one("Events::Rule", "ObjectCreated")
    assert "EventBusName" not in rule
    assert rule["EventPattern"] == {
        "source": ["aws.s3"],
        "detail-type": ["Object Created"],
        "detail": {
            "bucket": {"name": ["our-runs"]},
            "object": {
                "key": [
                    {"wildcard": "jobs/*index/*.json"},
                    {"wildcard": "jobs/*collections/*.json"},
                    {"wildcard": "jobs/*profiler-output/system/*.json"},
                    {"wildcard": "jobs/*watch.json"},
                    {"wildcard": "jobs/*training_job_end.ts"},
                ]
            },
        },
    }
    (switch,) = existing.all("Custom::BucketEvents").values()
    assert switch["Bucket"] == "our-runs"
    allowed = existing.statements("SwitchRole")
    actions = {action for one in allowed for action in listed(one["Action"])}
    expected = {"Location", "Notification"}
    assert actions == {f"s3:GetBucket{each}" for each in expected} | {
        "s3:PutBucketNotification",
        *LOG,
    }


@pytest.mark.parametrize("run", ["", "j1/", "team/j1/debug-output/"])
@pytest.mark.parametrize(
    "key", [index_key(7, "worker_0"), collections_key("worker_0"), WATCH, END_MARKER]
)
def test_an_existing_bucket_tells_of_every_file_that_counts(
    existing: Synthesised, run: str, key: str
) -> None:
    detail = existing.one("Events::Rule", "ObjectCreated")["EventPattern"]["detail"]
    patterns = [pattern["wildcard"] for pattern in detail["object"]["key"]]
    assert [pattern for pattern in patterns if fnmatchcase(f"jobs/{run}{key}", pattern)]
    assert not [pattern for pattern in patterns if fnmatchcase(f"other/{run}{key}", pattern)]
    assert not [pattern for pattern in patterns if fnmatchcase(f"jobs/{run}{STOP}", pattern)]


@pytest.mark.parametrize(
    ("rule", "target", "pattern"),
    [
        (
            "TrainingJobEnded",
            "EvaluateWorkQueue",
            {
                "source": ["aws.sagemaker"],
                "detail-type": ["SageMaker Training Job State Change"],
                "detail": {"TrainingJobStatus": ["Completed", "Failed", "Stopped"]},
            },
        ),
        (
            "ActionsNews",
            "ActionsWorkQueue",
            {"source": ["tocsin"], "detail-type": ["Tocsin Run News"]},
        ),
    ],
)
def test_events_reach_their_queue_or_its_dead_letters(
    own: Synthesised, rule: str, target: str, pattern: dict[str, Any]
) -> None:
    found = own.one("Events::Rule", rule)
    assert found["EventPattern"] == pattern
    (way,) = found["Targets"]
    assert way["Arn"]["Fn::GetAtt"][0].startswith(target)
    assert "DeadLetters" in way["DeadLetterConfig"]["Arn"]["Fn::GetAtt"][0]


def test_the_patrol_goes_round_every_minute(own: Synthesised) -> None:
    assert own.one("Events::Rule", "EveryMinute")["ScheduleExpression"] == "rate(1 minute)"


def test_a_patrol_is_not_repeated(own: Synthesised) -> None:
    ((_, config),) = own.all("Lambda::EventInvokeConfig").items()
    assert "Patrol" in config["FunctionName"]["Ref"]
    assert (config["MaximumRetryAttempts"], config["MaximumEventAgeInSeconds"]) == (0, 60)


def test_alarms_may_publish(own: Synthesised) -> None:
    (key,) = own.all("KMS::Key").values()
    (grant,) = [one for one in key["KeyPolicy"]["Statement"] if "Service" in one["Principal"]]
    assert grant["Principal"]["Service"] == "cloudwatch.amazonaws.com"
    assert {"kms:Decrypt", "kms:GenerateDataKey"} <= set(grant["Action"])
    for one in own.all("SNS::Topic").values():
        assert "KmsMasterKeyId" in one


def test_the_table_is_as_agreed(own: Synthesised) -> None:
    (table,) = own.all("DynamoDB::Table").values()
    assert table["KeySchema"] == [{"AttributeName": "pk", "KeyType": "HASH"}]
    assert table["TimeToLiveSpecification"] == {"AttributeName": "expires_at", "Enabled": True}
    assert table["BillingMode"] == "PAY_PER_REQUEST"
    (index,) = table["GlobalSecondaryIndexes"]
    assert index["IndexName"] == "due"
    assert [key["AttributeName"] for key in index["KeySchema"]] == ["due_shard", "due_at"]
    assert index["Projection"] == {"ProjectionType": "KEYS_ONLY"}


def test_buckets_are_private_and_stay(own: Synthesised) -> None:
    for name, bucket in own.all("S3::Bucket").items():
        assert all(bucket["PublicAccessBlockConfiguration"].values())
        assert "BucketEncryption" in bucket
        assert own.template["Resources"][name]["DeletionPolicy"] == "RetainExceptOnCreate"
    (table,) = [one for one in own.template["Resources"].values() if "Table" in one["Type"]]
    assert table["DeletionPolicy"] == "Delete"


def test_outputs_are_those_promised(stack: Synthesised) -> None:
    assert set(stack.template["Outputs"]) == {
        "ActDeadLetterQueueUrl",
        "ActQueueUrl",
        "AlarmTopicArn",
        "AlertTopicArn",
        "CaptureBucketName",
        "DashboardName",
        "FleetFunctionName",
        "ReplayStateMachineArn",
        "ReportDeadLetterQueueUrl",
        "ReportQueueUrl",
        "EvaluateDeadLetterQueueUrl",
        "EvaluateQueueUrl",
        "EventBusName",
        "StateBucketName",
        "StateTableName",
        "TocsinVersion",
        "TrainingWriterPolicyArn",
    }


def test_a_finding_of_nag_would_stop_synthesis(tmp_path: Path) -> None:
    app = App(outdir=str(tmp_path))
    s3.Bucket(Stack(app, "Careless"), "Bucket", removal_policy=RemovalPolicy.DESTROY)
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    with pytest.raises(RuntimeError, match="AwsSolutions-S1"):
        app.synth()


def test_only_our_functions_publish_on_the_bus(own: Synthesised) -> None:
    [bus] = own.all("Events::EventBus").values()
    [statement] = bus["Policy"]["Statement"]
    assert (statement["Effect"], statement["Action"]) == ("Deny", "events:PutEvents")
    assert "Fn::GetAtt" not in str(statement["Resource"]), "a resource cannot refer to itself"
    roles = statement["Condition"]["ArnNotEquals"]["aws:PrincipalArn"]
    named = [role["Fn::GetAtt"][0] for role in roles]
    assert [name[: name.index("Role")] for name in named] == ["EvaluationEvaluate", "ActionsAct"]


def test_s3_gets_special_characters_of_a_prefix_as_in_a_url(tmp_path: Path) -> None:
    stack = synthesise(tmp_path, {"capturePrefix": "team=vision/runs"})
    configuration = stack.one("S3::Bucket", "Capture")["NotificationConfiguration"]
    for one in configuration["QueueConfigurations"]:
        (prefix, _) = one["Filter"]["S3Key"]["Rules"]
        assert prefix == {"Name": "prefix", "Value": "team%3Dvision/runs/"}

"""The construct ``Tocsin``: composes the others, and has the outputs that the terminal reads."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

from aws_cdk import CfnOutput, Stack
from constructs import Construct

from tocsin_cdk.actions import Actions
from tocsin_cdk.bus import BusWithPolicy
from tocsin_cdk.capture import CaptureLocation
from tocsin_cdk.capture_bucket import CaptureBucket
from tocsin_cdk.dashboard import Dashboard, dashboard_url
from tocsin_cdk.evaluation import TIMEOUT, EvaluateFunction
from tocsin_cdk.existing_bucket import ExistingBucket
from tocsin_cdk.fleet import Fleet
from tocsin_cdk.issue_alarm import IssueAlarm
from tocsin_cdk.layer import SharedLayer
from tocsin_cdk.monitoring import Monitoring
from tocsin_cdk.options import DeploymentOptions, given_options
from tocsin_cdk.patrol import Patrol
from tocsin_cdk.queues import WorkQueue
from tocsin_cdk.relaunches import Relaunches
from tocsin_cdk.replays import Replays
from tocsin_cdk.reports import Reports
from tocsin_cdk.state import State
from tocsin_cdk.topics import Topics
from tocsin_cdk.training_access import TrainingAccess

if TYPE_CHECKING:
    from typing import Unpack

    from tocsin_cdk.options import OptionValues


class Tocsin(Construct):
    """All of Tocsin, inside of a stack of yours: ``Tocsin(self, "Tocsin", emails=["a@b.co"])``.

    The keywords are the options of docs/options.md with underscores: ``capture_bucket`` is
    ``captureBucket``. Raises OptionError for a wrong one. A stack holds one Tocsin, and two of one
    account and region have different stages.

    capture: the bucket and prefix of all runs.
    training_policy: for the roles of training jobs.
    bus, alerts, health, alarms: where events, notifications and alarms go.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        options: DeploymentOptions | None = None,
        **given: Unpack[OptionValues],
    ) -> None:
        super().__init__(scope, id_)
        options = options or given_options(given)
        stack = Stack.of(self)
        layer = SharedLayer(self, "Layer", options=options).version
        self.bus = BusWithPolicy(self, "Bus", name=options.names.bus)
        work = WorkQueue(self, "EvaluateWork", timeout=TIMEOUT)
        state = State(self, "State", options=options)
        topics = Topics(self, "Topics", options=options)
        self.alerts, self.health, self.alarms = topics.alerts, topics.health, topics.alarms
        self.capture = self._capture(options, work)
        evaluation = EvaluateFunction(
            self,
            "Evaluation",
            options=options,
            layer=layer,
            work=work,
            capture=self.capture,
            state=state,
            bus=self.bus,
        )
        actions = Actions(
            self,
            "Actions",
            options=options,
            layer=layer,
            capture=self.capture,
            state=state,
            bus=self.bus,
            topics=topics,
            dashboard=dashboard_url(stack, options),
        )
        reports = Reports(
            self,
            "Reports",
            options=options,
            layer=layer,
            capture=self.capture,
            state=state,
            bus=self.bus,
        )
        replays = Replays(
            self,
            "Replays",
            options=options,
            layer=layer,
            capture=self.capture,
            state=state,
        )
        self.bus.close_to_all_but([evaluation.evaluate.role, actions.act.role])
        patrol = Patrol(
            self,
            "Patrol",
            options=options,
            layer=layer,
            work=work,
            act=actions.work,
            state=state,
        )
        self.training_policy = TrainingAccess(self, "TrainingAccess", capture=self.capture).policy
        functions = {
            "Evaluate": evaluation.evaluate.function,
            "Act": actions.act.function,
            "Patrol": patrol.patrol.function,
            "Report": reports.report.function,
        }
        if options.relaunch:
            relaunches = Relaunches(
                self, "Relaunches", options=options, layer=layer, outcomes=actions.work
            )
            actions.may_start(relaunches.machine)
            functions["Relaunch"] = relaunches.relaunch.function
        queues = {"Evaluate": work, "Act": actions.work, "Report": reports.work}
        monitoring = Monitoring(
            self,
            "Monitoring",
            options=options,
            functions=functions,
            queues=queues,
            state=state,
            topic=topics.health,
        )
        issues = IssueAlarm(
            self, "IssueAlarm", namespace=options.names.namespace, topic=topics.alarms
        )
        fleet = Fleet(self, "Fleet", options=options, layer=layer, state=state)
        dashboard = Dashboard(
            self,
            "Overview",
            options=options,
            functions=functions,
            queues=queues,
            state=state,
            runs=fleet.widget,
            alarms=[issues.alarm, *monitoring.alarms],
        )
        outputs = {
            "CaptureBucketName": self.capture.bucket.bucket_name,
            "AlertTopicArn": topics.alerts.topic_arn,
            "AlarmTopicArn": topics.alarms.topic_arn,
            "EventBusName": self.bus.event_bus_name,
            "StateTableName": state.table.table_name,
            "StateBucketName": state.bucket.bucket_name,
            "EvaluateQueueUrl": work.queue.queue_url,
            "ActQueueUrl": actions.work.queue.queue_url,
            "ReportQueueUrl": reports.work.queue.queue_url,
            "EvaluateDeadLetterQueueUrl": work.dead_letters.queue_url,
            "ActDeadLetterQueueUrl": actions.work.dead_letters.queue_url,
            "ReportDeadLetterQueueUrl": reports.work.dead_letters.queue_url,
            "TrainingWriterPolicyArn": self.training_policy.managed_policy_arn,
            "DashboardName": dashboard.name,
            "ReplayStateMachineArn": replays.machine.ref,
            "FleetFunctionName": fleet.fleet.function.function_name,
            "TocsinVersion": version("tocsin"),
        }
        for name, value in outputs.items():
            # The terminal finds them by these names, in whatever stack the construct is.
            CfnOutput(self, name, value=value).override_logical_id(name)

    def _capture(self, options: DeploymentOptions, work: WorkQueue) -> CaptureLocation:
        bucket = (
            ExistingBucket(
                self, "Capture", name=options.capture_bucket, options=options, work=work
            ).bucket
            if options.capture_bucket
            else CaptureBucket(self, "Capture", options=options, work=work).bucket
        )
        return CaptureLocation(bucket, options.capture_prefix, options.capture_key_arn)

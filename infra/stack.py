"""The one stack: composes the constructs and has the outputs."""

from __future__ import annotations

from aws_cdk import CfnOutput, Stack
from constructs import Construct

from infra.actions import Actions
from infra.bus import BusWithPolicy
from infra.capture import CaptureLocation
from infra.capture_bucket import CaptureBucket
from infra.dashboard import Dashboard, dashboard_url
from infra.evaluation import TIMEOUT, EvaluateFunction
from infra.existing_bucket import ExistingBucket
from infra.issue_alarm import IssueAlarm
from infra.layer import SharedLayer
from infra.monitoring import Monitoring
from infra.options import DeploymentOptions
from infra.patrol import Patrol
from infra.queues import WorkQueue
from infra.state import State
from infra.topics import Topics
from infra.training_access import TrainingAccess


class TocsinStack(Stack):
    """All of Tocsin on AWS, in one region of one account."""

    def __init__(self, scope: Construct, id_: str, *, options: DeploymentOptions) -> None:
        super().__init__(scope, id_, description="Tocsin watches training jobs from outside")
        layer = SharedLayer(self, "Layer", options=options).version
        bus = BusWithPolicy(self, "Bus")
        work = WorkQueue(self, "EvaluateWork", timeout=TIMEOUT)
        state = State(self, "State", options=options)
        topics = Topics(self, "Topics", options=options)
        capture = self._capture(options, work)
        evaluation = EvaluateFunction(
            self,
            "Evaluation",
            options=options,
            layer=layer,
            work=work,
            capture=capture,
            state=state,
            bus=bus,
        )
        actions = Actions(
            self,
            "Actions",
            options=options,
            layer=layer,
            capture=capture,
            state=state,
            bus=bus,
            topics=topics,
            dashboard=dashboard_url(self),
        )
        bus.close_to_all_but([evaluation.evaluate.role, actions.act.role])
        patrol = Patrol(
            self,
            "Patrol",
            options=options,
            layer=layer,
            work=work,
            act=actions.work,
            state=state,
        )
        access = TrainingAccess(self, "TrainingAccess", capture=capture)
        functions = {
            "Evaluate": evaluation.evaluate.function,
            "Act": actions.act.function,
            "Patrol": patrol.patrol.function,
        }
        queues = {"Evaluate": work, "Act": actions.work}
        Monitoring(
            self,
            "Monitoring",
            functions=functions,
            queues=queues,
            patrol="Patrol",
            topic=topics.health,
        )
        IssueAlarm(self, "IssueAlarm", topic=topics.alarms)
        dashboard = Dashboard(self, "Overview", functions=functions, queues=queues)
        outputs = {
            "CaptureBucketName": capture.bucket.bucket_name,
            "AlertTopicArn": topics.alerts.topic_arn,
            "AlarmTopicArn": topics.alarms.topic_arn,
            "EventBusName": bus.event_bus_name,
            "StateTableName": state.table.table_name,
            "StateBucketName": state.bucket.bucket_name,
            "EvaluateQueueUrl": work.queue.queue_url,
            "EvaluateDeadLetterQueueUrl": work.dead_letters.queue_url,
            "ActDeadLetterQueueUrl": actions.work.dead_letters.queue_url,
            "TrainingWriterPolicyArn": access.policy.managed_policy_arn,
            "DashboardName": dashboard.name,
        }
        for name, value in outputs.items():
            CfnOutput(self, name, value=value)

    def _capture(self, options: DeploymentOptions, work: WorkQueue) -> CaptureLocation:
        bucket = (
            ExistingBucket(
                self, "Capture", name=options.capture_bucket, options=options, work=work
            ).bucket
            if options.capture_bucket
            else CaptureBucket(self, "Capture", options=options, work=work).bucket
        )
        return CaptureLocation(bucket, options.capture_prefix, options.capture_key_arn)

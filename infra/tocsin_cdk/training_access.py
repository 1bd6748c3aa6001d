"""The policy of a training job's role."""

from __future__ import annotations

from aws_cdk import Aws
from aws_cdk import aws_iam as iam
from constructs import Construct
from tocsin.aws.settings import PREFIX_TAG
from tocsin.tensors import PACE, STOP, TRACE, WATCH

from tocsin_cdk.capture import CaptureLocation
from tocsin_cdk.nag import acknowledge_wildcards


class TrainingAccess(Construct):
    """A managed policy to attach to the roles that training jobs run with.

    All jobs of a SageMaker role share one identity: IAM cannot distinguish them. So the unit of
    trust is the role. It has a prefix of its own, named by its tag: a role with the tag
    ``tocsin-prefix`` = ``vision`` may write runs under ``<capturePrefix>vision/`` and nowhere else.
    A training job cannot change the tags of its role. A role without the tag may write nothing.

    The role may read ``watch.json``, ``STOP.json``, ``pace.json`` and ``TRACE.json`` of its runs.
    It may not list: S3 answers "access denied" for a missing file, which the hook treats as "no
    such file". Nothing is granted on the state bucket.
    """

    def __init__(self, scope: Construct, id_: str, *, capture: CaptureLocation) -> None:
        super().__init__(scope, id_)
        own = f"${{aws:PrincipalTag/{PREFIX_TAG}}}"
        written = [capture.objects(f"{own}/*")]
        read = [
            capture.objects(f"{own}/{run}{name}")
            for run in ("*/", "")  # the prefix may be a run itself
            for name in (WATCH, STOP, PACE, TRACE)
        ]
        statements = [_allow(["s3:PutObject"], written), _allow(["s3:GetObject"], read)]
        if capture.key_arn:
            through_s3 = {"StringEquals": {"kms:ViaService": f"s3.{Aws.REGION}.{Aws.URL_SUFFIX}"}}
            key_uses = ["kms:GenerateDataKey", "kms:Decrypt"]
            statements.append(_allow(key_uses, [capture.key_arn], through_s3))
        self.policy = iam.ManagedPolicy(
            self,
            "Policy",
            description=f"Writes Tocsin runs under the prefix in the role's tag {PREFIX_TAG}",
            statements=statements,
        )
        why = "A role writes many runs, all of them under the prefix that its tag names."
        acknowledge_wildcards(self.policy, [*written, *read], why)


def _allow(
    actions: list[str], resources: list[str], conditions: dict[str, dict[str, str]] | None = None
) -> iam.PolicyStatement:
    return iam.PolicyStatement(actions=actions, resources=resources, conditions=conditions)

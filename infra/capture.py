"""Where training jobs write their runs, as the other constructs see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aws_cdk import aws_s3 as s3
from tocsin.tensors import INDEX

from infra.function import PythonFunction


@dataclass(frozen=True)
class Capture:
    """A bucket, the prefix of all runs in it (empty or with a slash at its end), and the ARN of
    the customer's key that encrypts it, if there is one.
    """

    bucket: s3.IBucket
    prefix: str
    key_arn: str | None

    def objects(self, pattern: str) -> str:
        """The ARN of objects under the prefix; ``pattern`` may hold wildcards."""
        return self.bucket.arn_for_objects(self.prefix + pattern)

    def grant_read(self, function: PythonFunction) -> None:
        """Lets a function read and list what lies under the prefix."""
        function.allow(
            ["s3:GetObject"],
            [self.objects("*")],
            wildcard="Runs come and go; all of them lie under this prefix.",
        )
        # S3 says "no such key" only to who may list, and asks that without a prefix: IfExists.
        only = {"StringLikeIfExists": {"s3:prefix": f"{self.prefix}*"}} if self.prefix else {}
        function.allow(["s3:ListBucket"], [self.bucket.bucket_arn], only)
        self._grant_key(function, ["kms:Decrypt"])

    def grant_index(self, function: PythonFunction) -> None:
        """Lets a function read and list the runs' index files, and none of what they refer to."""
        inside = [f"*/{INDEX}*", f"{INDEX}*"]  # a run may be the prefix itself
        function.allow(
            ["s3:GetObject"],
            [self.objects(pattern) for pattern in inside],
            wildcard="Runs come and go; the index files of all of them lie in a folder so named.",
        )
        only = {"StringLike": {"s3:prefix": [self.prefix + pattern for pattern in inside]}}
        function.allow(["s3:ListBucket"], [self.bucket.bucket_arn], only)
        self._grant_key(function, ["kms:Decrypt"])

    def grant_write(self, function: PythonFunction, name: str) -> None:
        """Lets a function write one file into every run, and nothing else."""
        function.allow(
            ["s3:PutObject"],
            [self.objects(f"*/{name}"), self.objects(name)],  # a run may be the prefix itself
            wildcard="The file has the same name in every run, and runs come and go.",
        )
        self._grant_key(function, ["kms:GenerateDataKey"])

    def _grant_key(self, function: PythonFunction, actions: Sequence[str]) -> None:
        if self.key_arn:
            function.allow(actions, [self.key_arn])

"""The place that training jobs write their runs to, and access to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aws_cdk import aws_s3 as s3
from tocsin.tensors import INDEX

from tocsin_cdk.function import PythonFunction


@dataclass(frozen=True)
class CaptureLocation:
    """A bucket and the prefix of all runs in it.

    prefix: empty, or with a slash at its end.
    key_arn: of the customer's key that encrypts the bucket, if there is one.
    """

    bucket: s3.IBucket
    prefix: str
    key_arn: str | None

    def objects(self, pattern: str) -> str:
        """Return the ARN of objects under the prefix; ``pattern`` may hold wildcards."""
        return self.bucket.arn_for_objects(self.prefix + pattern)

    def grant_read(self, function: PythonFunction) -> None:
        """Let a function read and list objects under the prefix."""
        function.allow(
            ["s3:GetObject"],
            [self.objects("*")],
            wildcard="Runs come and go; all of them are under this prefix.",
        )
        # S3 answers "no such key" only to a role that may list; that check has no prefix: IfExists.
        only = {"StringLikeIfExists": {"s3:prefix": f"{self.prefix}*"}} if self.prefix else {}
        function.allow(["s3:ListBucket"], [self.bucket.bucket_arn], only)
        self._grant_key(function, ["kms:Decrypt"])

    def grant_index(self, function: PythonFunction) -> None:
        """Let a function read and list the index files of runs, but not the event files."""
        inside = [f"*/{INDEX}*", f"{INDEX}*"]  # a run may be the prefix itself
        function.allow(
            ["s3:GetObject"],
            [self.objects(pattern) for pattern in inside],
            wildcard="Runs come and go; the index files of each are in a folder of this name.",
        )
        only = {"StringLike": {"s3:prefix": [self.prefix + pattern for pattern in inside]}}
        function.allow(["s3:ListBucket"], [self.bucket.bucket_arn], only)
        self._grant_key(function, ["kms:Decrypt"])

    def grant_write(self, function: PythonFunction, name: str) -> None:
        """Let a function write one file into every run, and nothing else."""
        function.allow(
            ["s3:PutObject"],
            [self.objects(f"*/{name}"), self.objects(name)],  # a run may be the prefix itself
            wildcard="The file has the same name in every run, and runs come and go.",
        )
        self._grant_key(function, ["kms:GenerateDataKey"])

    def _grant_key(self, function: PythonFunction, actions: Sequence[str]) -> None:
        if self.key_arn:
            function.allow(actions, [self.key_arn])

"""The story of docs/local.md: from CreateTrainingJob to the e-mail, as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from local import LocalAws
from tests.waiting import PATIENCE, becomes

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]


def test_the_job_of_the_page_is_stopped_and_the_email_comes(aws: LocalAws, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "local.md").read_text()
    training, creation, *_ = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "train.py").write_text(training)
    (tmp_path / "create.py").write_text(
        creation.replace('"BUCKET"', repr(aws.outputs["CaptureBucketName"]))
    )
    subprocess.run(
        [sys.executable, "create.py"],
        env={**os.environ, **aws.environment},
        cwd=tmp_path,
        check=True,
    )
    sagemaker = aws.client("sagemaker")

    def ended() -> bool:
        job = sagemaker.describe_training_job(TrainingJobName="first")
        return job["TrainingJobStatus"] not in ("InProgress", "Stopping")

    assert becomes(ended)
    assert (
        sagemaker.describe_training_job(TrainingJobName="first")["TrainingJobStatus"] == "Stopped"
    )
    mail = aws.mailbox.wait_for(
        lambda mail: mail.by_email and mail.attributes.get("job") == "first", timeout=PATIENCE
    )
    assert "ExplodingTensor" in mail.subject

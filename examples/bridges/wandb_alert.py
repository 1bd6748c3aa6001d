"""An alert of Weights & Biases for each rule that fires: a Lambda function, target of the bus.

The run of Weights & Biases is the one whose id is the name of the training job:
``wandb.init(id=job_name)``. Needs the standard library only, and these environment variables:

* ``WANDB_API_KEY``, ``WANDB_ENTITY``, ``WANDB_PROJECT``
* ``WANDB_BASE_URL``: of a server of your own; default: https://api.wandb.ai

The call is the one that ``run.alert()`` of the package makes. To try it on an event in a file:

    python examples/bridges/wandb_alert.py event.json
"""

from __future__ import annotations

import base64
import json
import os
import sys
import urllib.request
from pathlib import Path
from typing import Any

ALERT = """
mutation NotifyScriptableRunAlert($entityName: String!, $projectName: String!, $runName: String!,
    $title: String!, $text: String!, $severity: AlertSeverity = INFO) {
  notifyScriptableRunAlert(input: {entityName: $entityName, projectName: $projectName,
      runName: $runName, title: $title, text: $text, severity: $severity}) { success }
}"""
LEVELS = {"info": "INFO", "warning": "WARN", "critical": "ERROR"}


def handler(event: dict[str, Any], context: object) -> None:
    """Raises RuntimeError if the alert is refused: Lambda then tries again."""
    change, settings = event["detail"], os.environ
    variables = {
        "entityName": settings["WANDB_ENTITY"],
        "projectName": settings["WANDB_PROJECT"],
        "runName": change["TrainingJobName"],
        "title": f"{change['RuleConfigurationName']} at step {change['Step']}",
        "text": change["StatusDetails"],
        "severity": LEVELS[change["Severity"]],
    }
    key = base64.b64encode(f"api:{settings['WANDB_API_KEY']}".encode()).decode()
    request = urllib.request.Request(  # noqa: S310 - the address is a setting
        settings.get("WANDB_BASE_URL", "https://api.wandb.ai") + "/graphql",
        json.dumps({"query": ALERT, "variables": variables}).encode(),
        {"Content-Type": "application/json", "Authorization": f"Basic {key}"},
    )
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
        found = json.load(answer)
    if found.get("errors") or not found["data"]["notifyScriptableRunAlert"]["success"]:
        raise RuntimeError(f"Weights & Biases refused the alert: {found.get('errors')}")


if __name__ == "__main__":
    handler(json.loads(Path(sys.argv[1]).read_text()), None)

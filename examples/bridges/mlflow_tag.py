"""Tags of the run in MLflow for each rule that changes: a Lambda function, target of the bus.

The run of MLflow is the one with the name of the training job: ``mlflow.start_run(run_name=…)``.
It gets the tag ``tocsin.RULE`` with status, step and details, so that runs can be found by
``tags."tocsin.LossDiverging" LIKE "IssuesFound%"``. Needs the standard library only, and these
environment variables:

* ``MLFLOW_TRACKING_URI``: the server; ``MLFLOW_EXPERIMENT_ID``
* ``MLFLOW_TRACKING_TOKEN``: sent as a bearer token, where the server wants one

The calls are those of MLflow's REST API. To try it on an event in a file:

    python examples/bridges/mlflow_tag.py event.json
"""

from __future__ import annotations

import json
import os
import re
import sys
import urllib.request
from pathlib import Path
from typing import Any

LONGEST = 5000  # characters of a tag that every version of MLflow takes


def handler(event: dict[str, Any], context: object) -> None:
    """Raises LookupError if there is no such run: Lambda then tries again."""
    change = event["detail"]
    name = change["TrainingJobName"].replace("'", "")
    query = {
        "experiment_ids": [os.environ["MLFLOW_EXPERIMENT_ID"]],
        "filter": f"tags.`mlflow.runName` = '{name}'",
        "order_by": ["attributes.start_time DESC"],
        "max_results": 1,
    }
    runs = call("runs/search", query).get("runs", [])
    if not runs:
        raise LookupError(f"MLflow has no run of the name {name}")
    rule = re.sub(r"[^\w.\- ]", "_", change["RuleConfigurationName"])
    where = "" if change["Step"] is None else f" at step {change['Step']}"
    value = f"{change['RuleEvaluationStatus']}{where}: {change['StatusDetails']}"
    tag = {"key": f"tocsin.{rule}"[:250], "value": value[:LONGEST]}
    call("runs/set-tag", {"run_id": runs[0]["info"]["run_id"], **tag})


def call(path: str, body: dict[str, Any]) -> dict[str, Any]:
    headers = {"Content-Type": "application/json"}
    if token := os.environ.get("MLFLOW_TRACKING_TOKEN"):
        headers["Authorization"] = f"Bearer {token}"
    url = f"{os.environ['MLFLOW_TRACKING_URI'].rstrip('/')}/api/2.0/mlflow/{path}"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)  # noqa: S310
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
        found: dict[str, Any] = json.load(answer)
        return found


if __name__ == "__main__":
    handler(json.loads(Path(sys.argv[1]).read_text()), None)

"""Limits the workers of the functions on a laptop, and starts them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

CONCURRENCY = 2  # of each function; on AWS the template sets it


def tune(lambda_: Any) -> None:
    """Set the concurrency of each function and start its workers.

    Without a limit a burst of hints starts dozens of Python processes on a few cores. Measurements
    begin with warm functions, as on AWS; nobody waits for a report.
    """
    names = set()
    for mapping in lambda_.list_event_source_mappings()["EventSourceMappings"]:
        lambda_.update_event_source_mapping(
            UUID=mapping["UUID"], ScalingConfig={"MaximumConcurrency": CONCURRENCY}
        )
        if "Report" not in mapping["FunctionArn"]:
            names.add(mapping["FunctionArn"])
    with ThreadPoolExecutor() as pool:
        answers = pool.map(lambda name: _invoke(lambda_, name), sorted(names) * CONCURRENCY)
        for answer in answers:
            if "FunctionError" in answer:
                raise RuntimeError(f"a function does not start: {answer['Payload'].read()[:2000]}")


def _invoke(lambda_: Any, name: str) -> Any:
    """Invokes a function with no messages, only to start it."""
    return lambda_.invoke(FunctionName=name, Payload=b'{"Records": []}')

"""What a laptop needs on top of the template: few workers, and those warm."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

CONCURRENCY = 2  # of each function; on AWS the template's numbers hold


def tune(lambda_: Any) -> None:
    """Keeps a burst of hints from starting dozens of Python processes on a few cores, and starts
    the first ones, so that what is measured afterwards is a warm function as on AWS.
    """
    names = set()
    for mapping in lambda_.list_event_source_mappings()["EventSourceMappings"]:
        lambda_.update_event_source_mapping(
            UUID=mapping["UUID"], ScalingConfig={"MaximumConcurrency": CONCURRENCY}
        )
        names.add(mapping["FunctionArn"])
    with ThreadPoolExecutor() as pool:
        answers = pool.map(lambda name: _invoke(lambda_, name), sorted(names) * CONCURRENCY)
        for answer in answers:
            if "FunctionError" in answer:
                raise RuntimeError(f"a function does not start: {answer['Payload'].read()[:2000]}")


def _invoke(lambda_: Any, name: str) -> Any:
    """An event without messages, which asks nothing of a function but to be there."""
    return lambda_.invoke(FunctionName=name, Payload=b'{"Records": []}')

"""The options of a deployment on a laptop, and the start of its functions."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

CONCURRENCY = 2  # of each function: a burst of hints starts no dozens of processes on a few cores


def local_options(python: Path) -> Mapping[str, Any]:
    """Return the options of the embedded AWS; ``python`` runs its functions."""
    return {
        "tocsin:layerRuntime": "local",
        "tocsin:localPython": str(python),
        "concurrency": dict.fromkeys(("evaluate", "act", "report"), CONCURRENCY),
    }


def tune(lambda_: Any) -> None:
    """Start the workers of the functions.

    Measurements begin with warm functions, as on AWS; nobody waits for a report.
    """
    mappings = lambda_.list_event_source_mappings()["EventSourceMappings"]
    names = {each["FunctionArn"] for each in mappings if "Report" not in each["FunctionArn"]}
    with ThreadPoolExecutor() as pool:
        answers = pool.map(lambda name: _invoke(lambda_, name), sorted(names) * CONCURRENCY)
        for answer in answers:
            if "FunctionError" in answer:
                raise RuntimeError(f"a function does not start: {answer['Payload'].read()[:2000]}")


def _invoke(lambda_: Any, name: str) -> Any:
    """Invokes a function with no messages, only to start it."""
    return lambda_.invoke(FunctionName=name, Payload=b'{"Records": []}')

"""The dashboard's table of runs, as the deployed function makes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from local.paths import CACHE

PAGE = CACHE / "fleet.html"


def fleet_page(lambda_: Any, function: str, page: Path = PAGE) -> Path:
    """Calls the function as CloudWatch does, writes its HTML as a page, and returns the path."""
    answer = lambda_.invoke(FunctionName=function, Payload=b"{}")
    content = answer["Payload"].read()
    if "FunctionError" in answer:
        raise RuntimeError(f"the function {function} fails: {content[:2000]!r}")
    page.parent.mkdir(parents=True, exist_ok=True)
    title = "<!doctype html><meta charset=utf-8><title>Runs</title>"
    page.write_text(f"{title}\n{json.loads(content)}\n", encoding="utf-8")
    return page

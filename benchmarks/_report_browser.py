"""Measure how fast a Chromium draws a page: ``_report_browser.py CHROMIUM PAGE``. Print JSON."""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

LOADS = 3
_TIMES = """() => ({
  painted: performance.getEntriesByName("first-contentful-paint")[0]?.startTime,
  drawn: performance.getEntriesByName("drawn")[0]?.startTime,
  heap: performance.memory.usedJSHeapSize / 1e6,
})"""


def load(browser: Browser, page: Path) -> dict[str, float]:
    opened = browser.new_page()
    opened.goto(page.as_uri())
    opened.wait_for_selector("html[data-drawn]", state="attached")
    times: dict[str, float] = opened.evaluate(_TIMES)
    opened.close()
    return times


def main() -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=sys.argv[1], args=["--no-sandbox"])
        loads = [load(browser, Path(sys.argv[2])) for _ in range(LOADS)]
        browser.close()
    middle = {key: round(statistics.median(each[key] for each in loads)) for key in loads[0]}
    names = {"painted": "first paint, ms", "drawn": "all drawn, ms", "heap": "JavaScript heap, MB"}
    print(json.dumps({names[key]: value for key, value in middle.items()}))


if __name__ == "__main__":
    main()

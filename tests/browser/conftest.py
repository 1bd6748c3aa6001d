"""Pages in a Chromium without a window."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright
from tocsin.report import compared, html_of, json_of, report_on
from tocsin.tensors import open_storage

from tests.browser.runs import RUNS
from tests.browser.scenarios import DEMOS, run_of, write

FIXTURES = Path(__file__).parents[1] / "fixtures" / "smdebug"
SAMPLES = sorted(path.parent.name for path in FIXTURES.glob("*/run"))


def _chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = _chromium()
    if path is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="session")
def file_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The page of a run in RUNS or DEMOS or of a fixture, made once; ``a+b`` compares two."""
    folder = tmp_path_factory.mktemp("pages")

    def run(name: str) -> Path:
        if name in RUNS:
            if not (folder / name).exists():
                RUNS[name](folder / name)
            return folder / name
        if name in DEMOS:
            demos = folder / "demos"
            if not demos.exists():
                demos.mkdir()
                write(demos)
            return run_of(demos, name)
        return FIXTURES / name / "run"

    def page(name: str) -> Path:
        path = folder / f"{name}.html"
        if not path.exists():
            made = compared(
                [
                    report_on(open_storage(str(run(each))), now=lambda: time.time() + 30)
                    for each in name.split("+")
                ]
            )
            path.write_text(html_of(made), "utf-8")
            path.with_suffix(".json").write_bytes(json_of(made))
        return path

    return page


@dataclass
class Opened:
    """A page, what it wrote to the console, and what it requested."""

    page: Page
    said: list[str] = field(default_factory=list)
    requested: list[str] = field(default_factory=list)


@pytest.fixture
def opened(browser: Browser, file_of: Callable[[str], Path]) -> Iterator[Callable[..., Opened]]:
    """``opened(run, width=1280, …)`` waits until all is drawn."""
    contexts = []

    def show(name: str, *, width: int = 1280, drawn: bool = True, **options: object) -> Opened:
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        found = Opened(context.new_page())
        found.page.on("console", lambda message: found.said.append(message.text))
        found.page.on("pageerror", lambda error: found.said.append(str(error)))
        found.page.on("request", lambda request: found.requested.append(request.url))
        found.page.goto(file_of(name).as_uri())
        if drawn:
            found.page.wait_for_selector("html[data-drawn]", state="attached")
        return found

    yield show
    for context in contexts:
        context.close()

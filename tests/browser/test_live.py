"""``tocsin watch --web`` in a browser: a run that grows, and a folder of runs."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect
from tocsin.model import Mode
from tocsin.tensors import Captured, Collection, LocalStorage, RunWriter

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv" / "bin" / "python"  # this one has no terminal
PATHS = f"{ROOT / 'rules_layer'}:{ROOT / 'hooks'}:{ROOT}"
NAME = "<img src=x onerror=alert(1)>"


class Training:
    """Writes the loss of a run."""

    def __init__(self, path: Path, *losses: float) -> None:
        self.writer = RunWriter(LocalStorage(path), run_id="r1")
        self.writer.write_collections([Collection("losses", include_regex=("^loss$",))])
        self.step = 0
        self.steps(*losses)

    def steps(self, *losses: float) -> None:
        for loss in losses:
            self.writer.write(
                self.step, Mode.TRAIN, self.step, [Captured("loss", np.float32(loss))]
            )
            self.step += 1


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    Training(tmp_path / "sick", 1.0, float("nan"))
    Training(tmp_path / NAME, 3.0, 2.0, 1.0)
    return tmp_path


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """Fails if the page complains on its console, but for the 304 that is no error."""
    context = browser.new_context()
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    yield page
    context.close()
    assert said == []


@contextmanager
def served(place: Path) -> Iterator[str]:
    """The address of the command's server. Ctrl-C ends it."""
    command = [PYTHON, "-m", "tocsin", "watch", place, "--web"]
    environment = {**os.environ, "PYTHONPATH": PATHS, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        # What a shell starts in the background ignores Ctrl-C, and that is inherited.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    try:
        found = re.search(r"http://\S+", process.stdout.readline())
        assert found
        yield found[0]
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def address(folder: Path) -> Iterator[str]:
    with served(folder) as address:
        yield address


def test_a_run_that_grows_is_drawn_again(tmp_path: Path, page: Page) -> None:
    training = Training(tmp_path / "run", 3.0, 2.0, 1.0)
    with served(tmp_path / "run") as address:
        page.goto(address)
        expect(page.locator("h1")).to_contain_text("Too early to say", timeout=30_000)
        training.steps(float("nan"))
        expect(page.locator("h1")).to_contain_text("Training broke at step 3", timeout=30_000)
        page.goto("about:blank")  # it asks no longer


def test_runs_are_listed_sorted_and_compared(address: str, page: Page, folder: Path) -> None:
    page.goto(address)
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(2, timeout=30_000)
    expect(page.locator("tbody")).to_contain_text(NAME)  # as text
    page.get_by_role("link", name="verdict").click()
    expect(rows.first).to_contain_text("critical")
    for box in page.locator("input[type=checkbox]").all():
        box.check()
    Training(folder / "new", 1.0)
    expect(rows).to_have_count(3, timeout=30_000)  # by itself
    assert page.locator("input:checked").count() == 2
    page.get_by_role("button", name="Compare").click()
    expect(page.locator("main")).to_contain_text(NAME)
    expect(page.locator("main")).to_contain_text("sick")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_list_is_accessible_and_fits_a_phone(
    address: str, browser: Browser, scheme: str
) -> None:
    viewport = {"width": 400, "height": 800}
    context = browser.new_context(bypass_csp=True, color_scheme=scheme, viewport=viewport)
    shown = context.new_page()
    shown.goto(address)
    expect(shown.locator("tbody tr")).to_have_count(2, timeout=30_000)
    found = Axe().run(shown).response["violations"]
    assert [each["id"] for each in found if each["impact"] in ("serious", "critical")] == []
    assert shown.evaluate("() => document.documentElement.scrollWidth") <= 400
    context.close()

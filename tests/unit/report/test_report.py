"""The page of a run, and the file that it becomes."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from tocsin.model import Mode
from tocsin.report import Page, compared, html_of, json_of, report_on
from tocsin.tensors import END_MARKER, Captured, Collection, LocalStorage, RunWriter, summarize

NASTY = "</script><script>alert(1)</script>"
TEMPLATE = Path(__file__).parents[3] / "rules_layer" / "tocsin" / "report" / "template"


def captured(name: str, value: Any) -> Captured:
    array = np.asarray(value, np.float32)
    return Captured(name, array, summary=summarize(array, fingerprint=False))


def write(path: Path, steps: int = 30, lost_from: int = 20, *, ended: bool = True) -> LocalStorage:
    storage = LocalStorage(path)
    writer = RunWriter(storage, run_id="r")
    writer.write_collections(
        [
            Collection("losses", include_regex=("^loss$",)),
            Collection("gradients", include_regex=("^gradient/",)),
        ]
    )
    for step in range(steps):
        bad = np.nan if step >= lost_from else 1.0
        scale = 10.0 ** -(step % 3)
        writer.write(
            step,
            Mode.TRAIN,
            step,
            [
                captured("loss", bad / (1 + step)),
                captured("gradient/b", [scale, -scale]),
                captured("gradient/a", [0.0, 0.0]),
                captured(f"gradient/{NASTY}", [bad, bad]),
            ],
        )
    if ended:
        storage.write(END_MARKER, b"")
    return storage


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Page:
    return report_on(write(tmp_path_factory.mktemp("run")))


def test_verdict_losses_and_lanes(page: Page) -> None:
    assert page.verdict.step == 20
    assert page.verdict.sentence.startswith("Training broke at step 20: ")
    (loss,) = page.losses
    assert (loss.name, loss.mode, loss.kind, loss.x) == ("loss", "TRAIN", "loss", list(range(30)))
    assert loss.y[19:21] == [0.05, None]
    first = next(rule for rule in page.rules if rule.rule == "ExplodingTensor")
    assert first.spans == [(0, 20, "h"), (20, 29, "f")]
    assert first.at == list(range(20, 30))
    assert first.series is not None
    assert first.series.limit == 0
    assert first.advice
    assert (page.run.state, page.run.steps.evaluated, page.run.tensors) == ("finished", 30, 4)


def test_map_has_magnitudes_zeros_and_what_is_not_finite(page: Page) -> None:
    heat = page.heats["gradient"]

    cells = np.frombuffer(zlib.decompress(base64.b64decode(heat.cells)), np.uint8)
    _, high = cells.reshape(2, len(heat.rows), len(heat.x))
    by_name = dict(zip(heat.rows, high, strict=True))
    assert heat.rows == ["gradient/b", "gradient/a", f"gradient/{NASTY}"]
    assert (heat.lo, heat.hi) == (-2.0, 0.0)
    assert by_name["gradient/b"].tolist() == [254, 128, 2] * 10
    assert set(by_name["gradient/a"]) == {1}
    assert by_name[f"gradient/{NASTY}"].tolist() == [254] * 20 + [255] * 10
    assert page.heats["nan"].rows == ["loss", f"gradient/{NASTY}"]


def test_json_has_no_nan_and_is_the_page_again(page: Page) -> None:
    data = json_of(page)

    json.loads(data, parse_constant=pytest.fail)
    assert msgspec.json.decode(data, type=Page) == page


def test_html_cannot_be_left_by_a_name_and_runs_its_own_scripts_only(page: Page) -> None:
    html = html_of(page)

    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', html, re.S)
    assert "<" not in data
    assert msgspec.json.decode(data, type=Page) == page
    assert "alert(1)</script>" not in html
    (policy,) = re.findall(r'Content-Security-Policy" content="(.*?)"', html)
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "connect-src" not in policy
    for kind, pattern in (
        ("script-src", r"<script>(.*?)</script>"),
        ("style-src", r"<style>(.*?)</style>"),
    ):
        found = re.findall(pattern, html, re.S)
        hashes = {
            base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in found
        }
        (allowed,) = re.findall(rf"{kind} (.*?);", policy)
        assert {f"'sha256-{digest}'" for digest in hashes} == set(allowed.split())


def test_live_page_may_ask_its_server_for_itself(page: Page) -> None:
    html = html_of(page, live="/data.json")

    assert "connect-src 'self'" in html
    assert 'data-live="/data.json"' in html


def test_code_in_the_page_is_small_and_writes_text_only() -> None:
    files = [path for path in TEMPLATE.iterdir() if path.suffix in (".js", ".css", ".html")]
    sometimes = ("trees.js", "machine.js", "trace.js")  # in pages that have such a section
    always = [path for path in files if path.name not in sometimes]

    assert sum(path.stat().st_size for path in always) <= 101 << 10
    assert sum(path.stat().st_size for path in files) <= 113 << 10
    own = [path for path in files if not path.name.startswith("uPlot")]
    for path in own:
        text = path.read_text("utf-8")
        assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", text)


def test_vendored_library_is_the_one_that_is_pinned() -> None:
    pinned = json.loads((TEMPLATE / "vendored.json").read_text("utf-8"))

    for name, digest in pinned["sha256"].items():
        assert hashlib.sha256((TEMPLATE / name).read_bytes()).hexdigest() == digest
    assert "Leon Sorokin" in (TEMPLATE / "uPlot.LICENSE").read_text("utf-8")


def test_comparison_has_the_other_runs(page: Page, tmp_path: Path) -> None:
    other = report_on(write(tmp_path / "other", 10))

    both = compared([page, other])

    assert both.verdict == page.verdict
    assert [one.verdict for one in both.others] == [other.verdict]


@pytest.mark.parametrize(
    ("steps", "ended", "missing"),
    [
        (0, False, ["No step is complete", "No loss was captured", "No gradients or weights"]),
        (1, True, ["No activity of units", "There is only one step"]),
        (5, False, ["No activity of units", "The run has not ended"]),
    ],
)
def test_page_of_little_says_what_is_missing(
    steps: int, ended: bool, missing: list[str], tmp_path: Path
) -> None:
    page = report_on(write(tmp_path, steps, ended=ended))

    assert len(page.missing) == len(missing)
    assert all(text.startswith(start) for text, start in zip(page.missing, missing, strict=True))


def test_run_of_xgboost_has_its_sections() -> None:
    run = Path(__file__).parents[2] / "fixtures" / "smdebug" / "xgboost" / "run"

    found = report_on(LocalStorage(run)).boosted

    assert found is not None
    assert found.task == "binary"
    assert found.matrix is not None
    assert sum(map(sum, found.matrix.counts)) == sum(filter(None, found.bars[0].series["samples"]))
    titles = [each.title for each in (*found.bars, *found.lines)]
    assert "Feature importance: gain" in titles
    assert any(title.startswith("ROC curve: the area under it is 0.970") for title in titles)
    assert [row[0] for row in found.scores][:3] == ["micro", "macro", "weighted"]


def test_start_of_a_job_that_was_replaced_is_not_drawn(tmp_path: Path) -> None:
    write(tmp_path, 30, lost_from=5, ended=False)
    writer = RunWriter(LocalStorage(tmp_path), run_id="again")
    for step in range(20):
        writer.write(step, Mode.TRAIN, step, [captured("loss", 1.0)])

    page = report_on(LocalStorage(tmp_path))

    assert page.losses[0].x == list(range(20))
    assert page.heats == {}

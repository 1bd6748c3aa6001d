"""The report in a browser: it draws whatever the run is, makes no request, and can be used."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from tests.browser.conftest import SAMPLES, Opened
from tests.browser.runs import HOSTILE, RUNS
from tests.browser.scenarios import DEMOS

Show = Callable[..., Opened]

# The number of colours of each canvas that shows; an empty canvas has one.
_COLOURS = """() => [...document.querySelectorAll(".uplot canvas")]
  .filter((canvas) => canvas.offsetParent && canvas.width)
  .map((canvas) => canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height))
  .map((image) => new Set(new Uint32Array(image.data.buffer)).size)"""
_WIDTH = "() => document.documentElement.scrollWidth"


def _verdict(path: Path) -> str:
    return str(json.loads(path.with_suffix(".json").read_text())["verdict"]["sentence"])


@pytest.mark.parametrize("name", [*RUNS, *SAMPLES, *DEMOS])
def test_page_of_any_run_is_drawn_without_a_request_or_a_complaint(
    name: str, opened: Show, file_of: Callable[[str], Path]
) -> None:
    wide = opened(name)

    assert wide.page.inner_text("h1") == _verdict(file_of(name))
    assert wide.requested == [file_of(name).as_uri()]
    assert wide.said == []
    assert all(colours > 1 for colours in wide.page.evaluate(_COLOURS))
    narrow = opened(name, width=400)
    assert narrow.page.evaluate(_WIDTH) <= 400
    assert narrow.said == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["broken", "xgboost", "nothing", "demo-hang", "watched"])
def test_page_is_accessible_in_light_and_dark(name: str, scheme: str, opened: Show) -> None:
    shown = opened(name, color_scheme=scheme, bypass_csp=True)  # axe is a script of its own

    found = Axe().run(shown.page).response["violations"]

    serious = [each for each in found if each["impact"] in ("serious", "critical")]
    assert [(each["id"], [n["html"] for n in each["nodes"]][:3]) for each in serious] == []


def test_the_machine_says_what_was_found_first(opened: Show) -> None:
    shown = opened("watched").page.locator("#machine")

    assert "InputBottleneck" in shown.locator("article.card").first.inner_text()
    assert "waiting for data" in "".join(shown.locator(".legend").all_inner_texts())
    assert shown.locator("canvas:visible").count() >= 2  # step times, devices
    shown.locator("#devices").focus()
    shown.page.keyboard.press("ArrowDown")
    assert shown.locator(".read", has_text="node_0 gpu0").inner_text().endswith("90 %")
    assert (
        min(shown.locator(".node .spent i").evaluate_all("all => all.map((i) => i.clientWidth)"))
        > 0
    )


def test_the_machine_has_boxes_and_the_step_trace_shares(opened: Show) -> None:
    page = opened("watched").page
    page.locator("#statistics > summary").click()

    rows = page.locator("#machine tr", has_text="gpu1").all_inner_texts()
    assert any(text.split()[:2] == ["node_0", "gpu1"] for text in rows)
    assert page.locator("#machine tr .spent").first.evaluate("bar => bar.clientWidth") > 50
    trace = page.locator("#trace").inner_text()
    assert "compute 40 %" in trace
    assert "during 33 % of it" in trace
    assert "ncclDevKernel_x" in trace


def test_the_machine_is_there_without_javascript_and_not_where_none_was_watched(
    opened: Show,
) -> None:
    text = opened("watched", drawn=False, java_script_enabled=False).page.inner_text("main")

    assert "InputBottleneck" in text
    assert "training step" in text
    assert "waiting for data 26 %" in text
    assert opened("loss_only").page.locator("#machine").count() == 0


def test_light_and_dark_differ(opened: Show) -> None:
    colours = "() => getComputedStyle(document.body).backgroundColor"
    light, dark = (opened("broken", color_scheme=scheme).page for scheme in ("light", "dark"))
    before = light.evaluate(colours)

    assert before != dark.evaluate(colours)
    light.get_by_role("button", name="light / dark").click()
    assert light.evaluate(colours) == dark.evaluate(colours)


def test_verdict_and_rules_are_there_without_javascript(
    opened: Show, file_of: Callable[[str], Path]
) -> None:
    shown = opened("broken", drawn=False, java_script_enabled=False)

    assert shown.page.inner_text("h1") == _verdict(file_of("broken"))
    assert "What to do." in shown.page.inner_text("main")
    assert "ExplodingTensor" in shown.page.inner_text("table")


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("healthy", 2500),
        ("demo-healthy", 2500),
        ("xgboost", 2500),
        ("broken", 5000),
        ("demo-diverging", 5000),
        ("demo-hang", 5000),
        ("watched", 5000),
    ],
)
def test_page_is_short(name: str, most: int, opened: Show) -> None:
    page = opened(name, width=1600).page

    assert page.evaluate("() => document.documentElement.scrollHeight") <= most


def test_what_to_do_is_on_the_first_screen(opened: Show) -> None:
    for width in (400, 1600):
        page = opened("demo-diverging", width=width).page
        box = page.get_by_text("What to do.").first.bounding_box()

        assert box is not None
        assert box["y"] < 700


def test_sections_go_from_the_verdict_to_the_details(opened: Show) -> None:
    ids = opened("watched").page.evaluate(
        "() => [...document.querySelectorAll('main > *')].map((one) => one.id || one.tagName)"
    )
    assert ids == ["HEADER", "timeline", "machine", "trace", "rules", "quality", "FOOTER"]

    ids = opened("demo-diverging+demo-healthy").page.evaluate(
        "() => [...document.querySelectorAll('main > section')].map((one) => one.id)"
    )
    assert ids == ["timeline", "fired", "compare", "network", "rules", "quality"]


def test_clean_and_not_applicable_rules_are_folded(opened: Show) -> None:
    page = opened("broken").page
    rows = page.locator("#rules tbody tr:visible")
    fired = rows.count()

    page.locator("#clean > summary").click()
    page.locator("#idle > summary").click()

    assert fired < 8
    assert rows.count() > 40


def test_folds_stay_open_when_the_page_is_drawn_again(opened: Show) -> None:
    page = opened("broken").page
    page.locator("#idle > summary").click()

    page.evaluate("render(page)")

    assert page.locator("#idle tbody tr").first.is_visible()


def test_training_is_dashed_beside_evaluation_everywhere(opened: Show) -> None:
    page = opened("demo-diverging+demo-healthy").page

    for legend in ("#timeline .legend >> nth=0", "#compare .legend"):
        keys = page.locator(f"{legend} >> span")
        dashed = {key.inner_text(): key.locator("i.dashed").count() for key in keys.all()}
        lines = {name: count for name, count in dashed.items() if name != "not finite"}
        assert lines == {name: int(name.endswith("train")) for name in lines}
        assert sum(lines.values()) == len(lines) / 2


def test_every_feature_has_its_name(opened: Show) -> None:
    page = opened("xgboost").page

    bars = page.locator("#boosted .bars").first
    assert [row.split()[0] for row in bars.locator("tr").all_inner_texts()] == [
        "f0",
        "f1",
        "f2",
        "f3",
    ]


def _zoomed(page: Page) -> str:
    return page.get_attribute("html", "data-zoom") or ""


def test_drag_zooms_all_charts_and_double_click_undoes_it(opened: Show) -> None:
    page = opened("broken").page
    over = page.locator("#timeline .u-over").first
    box = over.bounding_box()
    assert box is not None
    ranges = """() => charts.filter((u) => u.overSteps)
        .map((u) => [u.scales.x.min, u.scales.x.max].join())"""
    before = page.evaluate(ranges)

    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.8 * box["width"], box["y"] + 50, steps=4)
    page.mouse.up()

    after = page.evaluate(ranges)
    assert len(after) > 5
    assert len(set(after)) == 1
    assert after[0] != before[0]
    over.dblclick()
    assert page.evaluate(ranges) == before


def test_zoom_to_where_it_broke(opened: Show) -> None:
    page = opened("broken").page

    page.get_by_role("button", name="zoom to where it broke").click()

    low, high = map(float, _zoomed(page).split())
    assert 0 < low < 80 <= high


def test_click_on_the_map_shows_the_distribution_of_that_row(opened: Show) -> None:
    page = opened("broken").page
    page.get_by_role("button", name="|weight|", exact=True).click()
    # The map before is shown until that of the weights is read.
    page.get_by_text("|weight|: 6 rows").wait_for()
    over = page.locator("#map .u-over")
    over.wait_for()  # a chart has its size in the next frame
    box = over.bounding_box()
    assert box is not None
    over.click(position={"x": 30, "y": box["height"] - 4})

    assert page.locator("#fan select").input_value() == "block5.weight"


def test_map_can_be_read_with_the_keyboard(opened: Show) -> None:
    page = opened("broken").page
    page.get_by_role("button", name="|weight|", exact=True).click()
    page.locator("#map").focus()

    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")

    assert page.locator("#fan select").input_value() == "block1.weight"


def test_losses_are_named_and_where_they_are_not_finite(opened: Show) -> None:
    legend = opened("broken").page.inner_text("#timeline .legend >> nth=0")

    assert [line.strip() for line in legend.splitlines() if line.strip()] == [
        "train",
        "eval",
        "not finite",
    ]


def test_machine_is_shown_by_the_minute(opened: Show) -> None:
    page = opened("demo-slow-loader").page

    assert "InputBottleneck since minute" in page.inner_text("h1")
    assert "cpu/CPUUtilization" in page.inner_text("#timeline")
    assert "minutes judged" in page.inner_text("header")
    assert "No loss" not in page.inner_text("main")


def test_of_many_findings_the_first_are_open(opened: Show) -> None:
    page = opened("demo-storm").page

    assert page.locator("#fired .card").count() == 20
    assert page.locator("#fired > .card").count() == 5
    page.get_by_role("link", name="unreachable-17").click()
    page.locator("#rule-unreachable-17 canvas").wait_for()


def test_the_advice_of_a_rule_stands_once(opened: Show) -> None:
    page = opened("demo-storm").page

    assert page.get_by_text("Why it happens.").count() == 1
    assert page.get_by_text("See unreachable-01.").count() == 19


def test_names_stay_text_whatever_they_are(opened: Show) -> None:
    shown = opened("hostile")

    assert HOSTILE in shown.page.inner_text("#fired")
    assert shown.page.locator("main script, main img").count() == 0
    assert "Training" in shown.page.title() or "ExplodingTensor" in shown.page.title()
    assert len(shown.requested) == 1


def test_rules_can_be_searched(opened: Show) -> None:
    page = opened("broken").page

    page.get_by_role("searchbox").fill("exploding")

    assert page.locator("#rules tbody tr").count() < 5
    assert "ExplodingTensor" in page.inner_text("#rules tbody")


def test_consequences_are_folded_and_drawn_when_opened(opened: Show) -> None:
    page = opened("broken", bypass_csp=True).page  # to wait for an expression

    page.locator("#fired details summary", has_text="ExplodingTensor explains").click()
    page.locator("#fired details canvas").first.wait_for()
    page.wait_for_function(f"({_COLOURS})().every((colours) => colours > 1)")
    assert page.evaluate(_WIDTH) <= 1280


def test_chart_has_its_numbers_as_a_table(opened: Show) -> None:
    page = opened("loss_only").page

    page.locator("#timeline details summary").first.click()

    rows = page.locator("#timeline details table tbody tr")
    rows.first.wait_for()  # a fold is filled after its click has been handled
    assert rows.count() <= 26
    assert "train" in page.inner_text("#timeline details table")

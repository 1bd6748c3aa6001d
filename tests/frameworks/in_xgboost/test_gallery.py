"""The smallest form of the example of the gallery that needs XGBoost."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as Xml

from examples.shown import HERE, show


def test_both_reports_have_all_their_sections(tmp_path: Path) -> None:
    shown = show("xgboost_report", small=True, out=tmp_path)
    text = (HERE / "xgboost_report" / "README.md").read_text()
    assert all(f"| {figure} | " in text for figure in shown.figures)
    wanted = {
        "regression": ("Residuals", "Mean absolute error by label"),
        "classification": ("Accuracy of each class", "ROC curve"),
    }
    for task, titles in wanted.items():
        page = (tmp_path / "xgboost_report" / f"{task}.html").read_text("utf-8")
        assert all(title in page for title in (*titles, "Feature importance: shap", "Labels"))
        off = shown.figures[f"{task}: SHAP values of a sample add up to its prediction"]
        assert float(off.removeprefix("to ")) < 1e-3
    picture = Xml.fromstring(shown.picture)
    dots = [each.get("d", "") for each in picture if "stroke-linecap" in each.attrib]
    assert sum(path.count("M") for path in dots) == 6 * (111 + 143)  # features, held-out samples

"""``tocsin report``."""

from __future__ import annotations

import json


def test_page_and_json_of_a_run(tocsin, ill, tmp_path):
    page = tmp_path / "ill.html"

    said = tocsin("report", ill, "-o", page)

    assert (said.code, said.out) == (0, f"{page}\n")
    found = json.loads((tmp_path / "ill.json").read_text())
    assert said.err == f"tocsin: {found['verdict']['sentence']}\n"
    assert found["verdict"]["step"] == 50
    assert found["verdict"]["sentence"] in page.read_text()


def test_other_runs_are_compared_with_the_first(tocsin, ill, tmp_path):
    page = tmp_path / "both.html"

    assert tocsin("report", ill, ill, "-o", page).code == 0

    (other,) = json.loads((tmp_path / "both.json").read_text())["others"]
    assert other["run"]["url"] == str(ill)


def test_watch_file_is_used(tocsin, ill, tmp_path):
    watch = tmp_path / "watch.yaml"
    watch.write_text("rules: [ExplodingTensor]\n")

    tocsin("report", ill, "-o", tmp_path / "one.html", "--watch", watch)

    rules = json.loads((tmp_path / "one.json").read_text())["rules"]
    assert [rule["Rule"] for rule in rules] == ["ExplodingTensor"]


def test_what_cannot_be_written_or_read(tocsin, ill, tmp_path):
    missing = tmp_path / "missing"

    assert tocsin("report", ill, "-o", missing / "a.html").complaint == f"{missing}: no such folder"
    assert "ends in .html" in tocsin("report", ill, "-o", tmp_path / "a.json").complaint
    assert tocsin("report", missing, "-o", tmp_path / "a.html").complaint.endswith("no such folder")

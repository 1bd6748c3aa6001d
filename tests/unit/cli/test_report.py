"""``tocsin report``."""

from __future__ import annotations

import json


def test_page_and_json_of_a_run(tocsin, ill, tmp_path):
    page = tmp_path / "ill.html"

    said = tocsin("report", ill, "-o", page)

    found = json.loads((tmp_path / "ill.json").read_text())
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith(f"{found['verdict']['sentence']}\n")
    assert said.out.endswith(f"\n{page}\n")
    assert found["verdict"]["step"] == 50
    assert found["verdict"]["sentence"] in page.read_text()


def test_json_says_where_the_page_is(tocsin, ill, tmp_path):
    said = tocsin("report", ill, "-o", tmp_path / "ill.html", "--json").json

    assert list(said) == ["page", "data", "run", "verdict"]
    assert said["data"] == str(tmp_path / "ill.json")
    assert said["verdict"]["level"] == "critical"


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
    assert tocsin("report", missing, "-o", tmp_path / "a.html").complaint.startswith(
        f"{missing}: no such folder"
    )

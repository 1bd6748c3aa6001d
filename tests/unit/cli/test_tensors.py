"""``tocsin tensors``."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest

KEYS = ["run", "finished", "num_workers", "workers", "collections", "steps", "tensors"]
ROW = ["name", "step", "mode", "mode_step", "worker", "dtype", "shape", "nbytes", "sha256"]


def test_smdebugs_runs(tocsin, sample):
    said = tocsin("tensors", sample.path, "--json")
    assert (said.code, said.err) == (0, "")
    document = said.json
    trial = sample.trial
    assert list(document) == KEYS
    assert document["run"] == str(sample.path)
    assert document["finished"] is trial["loaded_all_steps"]
    assert document["num_workers"] == trial["num_workers"]
    assert document["workers"] == trial["workers"]
    assert document["steps"] == {**trial["steps_by_mode"], "GLOBAL": trial["steps_global"]}
    assert document["collections"].keys() == trial["collections"].keys()
    assert {row["name"] for row in document["tensors"]} == trial["tensors"].keys()
    for row in document["tensors"]:
        assert list(row) == [key for key in ROW if key in row]
        assert "sha256" not in row
    people = tocsin("tensors", sample.path)
    assert people.code == 0
    for name in trial["tensors"]:
        assert name[:20] in people.out


def test_the_document(tocsin, ill):
    place = {"step": 20, "mode": "TRAIN", "mode_step": 2, "worker": "worker_0"}
    said = tocsin("tensors", ill, "--json", "--digest", "--regex", "^gradient")
    content = np.full(4, 1e-9).tobytes()
    digest = hashlib.sha256(content).hexdigest()
    facts = {"dtype": "float64", "shape": [4], "nbytes": 32, "sha256": digest}
    assert {"name": "gradient/w", **place, **facts} in said.json["tensors"]
    assert len(said.json["tensors"]) == 6


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (["--collection", "losses"], {"loss"}),
        (["--collection", "gradients"], {"gradient/w"}),
        (["--collection", "gradients", "--regex", "loss"], set()),
        (["--regex", "."], {"loss", "gradient/w"}),
    ],
)
def test_selections(tocsin, ill, options, names):
    rows = tocsin("tensors", ill, "--json", *options).json["tensors"]
    assert {row["name"] for row in rows} == names


def test_a_run_in_s3(tocsin, ill, upload):
    url = upload(ill, "jobs/j1/debug-output")
    local = tocsin("tensors", ill, "--json", "--digest").json
    assert tocsin("tensors", url, "--json", "--digest").json == {**local, "run": url}


def test_an_export_for_tensorboard(tocsin, sample, tmp_path):
    boards = tmp_path / "boards"
    said = tocsin("tensors", sample.path, "--export-tensorboard", boards, "--json")
    assert said.code == 0
    assert list(said.json) == KEYS
    metas = [json.loads(path.read_text())["meta"] for path in sample.path.glob("index/*/*.json")]
    assert {path.name for path in boards.iterdir()} == {meta["mode"] for meta in metas}
    files = [path for path in boards.rglob("*") if path.is_file()]
    assert f"{len(files)} event files: see tensorboard --logdir" in said.err


def test_an_export_that_cannot_be_written(tocsin, sample, tmp_path):
    (tmp_path / "file").write_text("")
    said = tocsin("tensors", sample.path, "--export-tensorboard", tmp_path / "file")
    assert (said.code, said.out) == (2, "")
    assert len(said.err.splitlines()) == 1

"""``tocsin tensors``."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

KEYS = ["run", "finished", "num_workers", "workers", "collections", "steps", "tensors"]


def test_the_document(tocsin, ill):
    place = {"step": 20, "mode": "TRAIN", "mode_step": 2, "worker": "worker_0"}
    said = tocsin("tensors", ill, "--json", "--digest", "--regex", "^gradient")
    content = np.full(4, 1e-9).tobytes()
    digest = hashlib.sha256(content).hexdigest()
    facts = {"dtype": "float64", "shape": [4], "nbytes": 32, "sha256": digest}
    assert {"name": "gradient/w", **place, **facts} in said.json["tensors"]
    assert (list(said.json), len(said.json["tensors"])) == (KEYS, 6)
    assert (said.code, said.err) == (0, "")
    assert not [row for row in tocsin("tensors", ill, "--json").json["tensors"] if "sha256" in row]
    assert "gradient/w" in tocsin("tensors", ill).out


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


def test_an_export_for_tensorboard(tocsin, ill, tmp_path):
    boards = tmp_path / "boards"
    said = tocsin("tensors", ill, "--export-tensorboard", boards, "--json")
    assert said.code == 0
    assert list(said.json) == KEYS
    assert {path.name for path in boards.iterdir()} == {"TRAIN"}
    files = [path for path in boards.rglob("*") if path.is_file()]
    assert f"{len(files)} event files: see tensorboard --logdir" in said.err


def test_an_export_that_cannot_be_written(tocsin, ill, tmp_path):
    (tmp_path / "file").write_text("")
    said = tocsin("tensors", ill, "--export-tensorboard", tmp_path / "file")
    assert (said.code, said.out) == (2, "")
    assert len(said.err.splitlines()) == 1

"""What ``tocsin tensors`` says of a run."""

from __future__ import annotations

import io
import json
import shutil

import numpy as np
import pytest
from rich.console import Console
from tocsin.cli import tensors as shown
from tocsin.cli.tensors import print_tensors, tensors_document
from tocsin.model import Mode, TensorSummary
from tocsin.tensors import (
    BadPattern,
    Captured,
    Collection,
    LocalStorage,
    RunWriter,
    event_key,
    index_key,
    reduction_name,
)
from tocsin.trial import snapshot

KEYS = ["run", "finished", "num_workers", "workers", "collections", "steps", "tensors"]
PLACE = ["name", "step", "mode", "mode_step", "worker"]


def _document(storage, **options):
    document = tensors_document(snapshot(storage), storage, **options)
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    return document


def _place(row):
    return row["step"], row["worker"], row["name"]


def _truth(sample):
    """Rows by place: raw tensors from the records, where the last of a name counts; the others
    (shapes, reductions) from smdebug's reader."""
    truth = {}
    for record in sample.records:
        worker = record["file"].rpartition("/")[2].partition("_")[2].removesuffix(".tfevents")
        if "smdebug/reductions/" not in record["tag"]:
            truth[record["step"], worker, record["tag"]] = {
                "shape": [size for size, _ in record["dims"]],
                "sha256": record["content_sha256"],
                "nbytes": record["content_nbytes"],
                "strings": record.get("string_val"),
            }
    for name, tensor in sample.trial["tensors"].items():
        for place, value in tensor["values"].items():
            step, worker = place.split("|")
            shape = tensor["shapes"].get(place)
            known = truth.setdefault((int(step), worker, name), {"shape": shape})
            if "raises" in value and "sha256" not in known and isinstance(shape, dict):
                known["shape"] = None
            if value.get("strings") is not None:
                known |= {"sha256": value["sha256"], "dtype": value["dtype"]}
    complete = set(sample.trial["steps_global"])
    return {place: row for place, row in truth.items() if place[0] in complete}


def test_documents_of_smdebugs_runs(sample):
    document = _document(LocalStorage(sample.path), digest=True)
    trial = sample.trial
    assert list(document) == KEYS
    assert document["run"] == str(sample.path)
    assert document["finished"] == trial["loaded_all_steps"]
    assert document["num_workers"] == trial["num_workers"]
    assert document["workers"] == trial["workers"]
    assert document["steps"] == {**trial["steps_by_mode"], "GLOBAL": trial["steps_global"]}
    assert document["collections"] == {
        name: {key: found[key] for key in ("include_regex", "tensor_names")}
        for name, found in trial["collections"].items()
    }
    rows = {_place(row): row for row in document["tensors"]}
    assert len(rows) == len(document["tensors"])
    truth = _truth(sample)
    assert rows.keys() == truth.keys()
    for place, row in rows.items():
        known = truth[place]
        assert [row["mode"], row["mode_step"]] == trial["global_to_mode"][str(row["step"])]
        assert row["shape"] == known["shape"]
        if "sha256" not in known:
            assert list(row) == [*PLACE, "dtype", "shape"]
            continue
        assert row["sha256"] == known["sha256"]
        assert list(row) == [*PLACE, "dtype", "shape", "nbytes", "sha256"]
        if known["strings"] is None:
            assert row["nbytes"] == known["nbytes"]
            assert row["nbytes"] == np.dtype(row["dtype"]).itemsize * np.prod(row["shape"])
        else:
            assert row["dtype"] == known["dtype"]


def test_without_digest(sample):
    with_digest = _document(LocalStorage(sample.path), digest=True)
    for row in with_digest["tensors"]:
        row.pop("sha256", None)
    assert _document(LocalStorage(sample.path)) == with_digest


@pytest.mark.parametrize(
    ("regex", "collection", "expected"),
    [
        ("^gradient", None, {"gradient/fc/weight"}),
        (None, "weights", {"fc/weight"}),
        ("bias", "weights", set()),
        ("weight$", None, {"fc/weight", "gradient/fc/weight"}),
        (None, "losses", {"loss"}),
    ],
)
def test_selection(named_sample, regex, collection, expected):
    document = _document(
        LocalStorage(named_sample("multi_worker").path), regex=regex, collection=collection
    )
    assert {row["name"] for row in document["tensors"]} == expected
    assert document["steps"]["GLOBAL"] == [0, 5, 10, 20, 30, 40]


def test_a_collection_of_reductions(named_sample):
    document = _document(LocalStorage(named_sample("reductions").path), collection="gradients")
    assert {row["name"] for row in document["tensors"]} == {
        f"gradient/Sequential_{layer}.{kind}" for layer in (0, 2) for kind in ("bias", "weight")
    }


def test_selections_that_are_wrong(named_sample):
    run = LocalStorage(named_sample("multi_worker").path)
    with pytest.raises(ValueError, match="no collection 'none'; it has: biases, gradients"):
        _document(run, collection="none")
    with pytest.raises(BadPattern):
        _document(run, regex="(")


@pytest.fixture
def ours(tmp_path):
    """A run of our own hook: raw values, a summary, reductions with and without the raw value."""
    storage = LocalStorage(tmp_path / "run")
    writer = RunWriter(storage, run_id="r")
    tensors = [
        Captured("raw", np.arange(3, dtype=np.float32)),
        Captured(reduction_name("max", "raw"), 2.0),
        Captured("known", shape=(7, 2), dtype="float16", summary=TensorSummary(size=14)),
        Captured(reduction_name("max", "reduced"), 2.0),
        Captured(reduction_name("min", "reduced"), 1.0),
        Captured("words", ["a", "bc"]),
    ]
    writer.write(4, Mode.EVAL, 2, tensors)
    return storage


def test_documents_of_our_own_runs(ours):
    place = {"step": 4, "mode": "EVAL", "mode_step": 2, "worker": "worker_0"}
    document = _document(ours)
    assert document["tensors"] == [
        {"name": "raw", **place, "dtype": "float32", "shape": [3], "nbytes": 12},
        {"name": "reduced", **place, "dtype": None, "shape": None},
        {"name": "words", **place, "dtype": "<U2", "shape": [2], "nbytes": 16},
        {"name": "known", **place, "dtype": "float16", "shape": [7, 2]},
    ]
    assert document["steps"] == {"GLOBAL": [4], "TRAIN": [], "EVAL": [2], "PREDICT": []}
    assert document["collections"] == {}


def test_the_index_is_enough_without_digest(ours, monkeypatch):
    read = []
    monkeypatch.setattr(shown, "read_values", lambda run, index, names: read.append(names) or {})
    _document(ours)
    assert read == [{"words"}]


def test_damage_is_in_the_document(named_sample, tmp_path):
    shutil.copytree(named_sample("multi_worker").path, tmp_path / "run")
    storage = LocalStorage(tmp_path / "run")
    storage.write(index_key(10, "worker_1"), b"")
    (tmp_path / "run" / event_key(30, "worker_0")).unlink()
    document = _document(storage, digest=True)
    assert document["unreadable"] == [{"key": index_key(10, "worker_1"), "reason": "file is empty"}]
    damaged = [row for row in document["tensors"] if "unreadable" in row]
    assert {_place(row)[:2] for row in damaged} == {(30, "worker_0")}
    assert all("missing" in row["unreadable"] and "nbytes" not in row for row in damaged)
    text = _printed(document)
    assert "unreadable: loss at step 30 of worker_0: event file" in text
    assert f"unreadable: {index_key(10, 'worker_1')}: file is empty" in text


def _printed(document):
    out = io.StringIO()
    print_tensors(document, Console(file=out, width=200))
    return out.getvalue()


def test_the_table(named_sample):
    lines = _printed(_document(LocalStorage(named_sample("torch_mlp").path))).splitlines()
    row = next(line for line in lines if "gradient/MLP_fc1.bias" in line)
    assert [cell.strip() for cell in row.split("│")][1:-1] == [
        "gradient/MLP_fc1.bias",
        "0 … 51 (5)",
        "1",
        "float32",
        "[16]",
    ]
    assert "finished, 1 of 1 workers, complete steps: 0 … 70 (8)" in lines


def test_names_cannot_write_on_the_terminal(tmp_path):
    writer = RunWriter(LocalStorage(tmp_path))
    writer.write_collections([Collection("c")])
    writer.write(0, Mode.TRAIN, 0, [Captured("\x1b[31m[bold]red", 1.0)])
    text = _printed(_document(LocalStorage(tmp_path)))
    assert "\x1b" not in text
    assert "[bold]red" in text

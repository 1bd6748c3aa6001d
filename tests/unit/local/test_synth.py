from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from local import synth
from local.error import LocalError
from local.reaper import Reaper
from local.synth import Asset, read_assembly, synthesize

BUCKET = "cdk-hnb659fds-assets-${AWS::AccountId}-${AWS::Region}"
MANIFEST = {
    "files": {
        "aaa": {
            "source": {"path": "asset.aaa", "packaging": "zip"},
            "destinations": {"here": {"bucketName": BUCKET, "objectKey": "aaa.zip"}},
        },
        "bbb": {
            "source": {"path": "Tocsin.template.json", "packaging": "file"},
            "destinations": {"here": {"bucketName": BUCKET, "objectKey": "bbb.json"}},
        },
    }
}
TEMPLATE = {"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}}

APP = f"""
import json, os, pathlib
folder = pathlib.Path(os.environ["CDK_OUTDIR"])
write = lambda name, value: (folder / name).write_text(json.dumps(value))
context = json.loads(os.environ["CDK_CONTEXT_JSON"])
write("Tocsin.template.json", {{"Context": context, "Profile": os.environ.get("AWS_PROFILE")}})
write("Tocsin.assets.json", {MANIFEST!r})
write("manifest.json", {{"artifacts": {{
    "Tocsin": {{"type": "aws:cloudformation:stack",
               "properties": {{"templateFile": "Tocsin.template.json"}}}},
}}}})
"""


def stack(name: str) -> dict[str, Any]:
    properties = {"templateFile": f"{name}.template.json"}
    return {name: {"type": "aws:cloudformation:stack", "properties": properties}}


def write_assembly(folder: Path, artifacts: dict[str, Any]) -> None:
    assets = {"type": "cdk:asset-manifest", "properties": {"file": "Tocsin.assets.json"}}
    tree = {"Tree": {"type": "cdk:tree", "properties": {"file": "tree.json"}}}
    whole = {"artifacts": {**tree, "Tocsin.assets": assets, **artifacts}}
    (folder / "manifest.json").write_text(json.dumps(whole))
    (folder / "Tocsin.assets.json").write_text(json.dumps(MANIFEST))
    (folder / "Tocsin.template.json").write_text(json.dumps(TEMPLATE))


def test_an_assembly_is_a_template_and_where_its_assets_go(tmp_path: Path) -> None:
    write_assembly(tmp_path, stack("Tocsin"))
    assembly = read_assembly(tmp_path)
    assert assembly.stack == "Tocsin"
    assert assembly.template == TEMPLATE
    assert assembly.assets == (
        Asset(tmp_path / "asset.aaa", "zip", BUCKET, "aaa.zip"),
        Asset(tmp_path / "Tocsin.template.json", "file", BUCKET, "bbb.json"),
    )


@pytest.mark.parametrize(("names", "number"), [((), 0), (("Tocsin", "Other"), 2)])
def test_an_assembly_holds_one_stack(tmp_path: Path, names: tuple[str, ...], number: int) -> None:
    write_assembly(tmp_path, {k: v for name in names for k, v in stack(name).items()})
    with pytest.raises(LocalError, match=f"holds {number} stacks"):
        read_assembly(tmp_path)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "cdk.json").write_text(json.dumps({"context": {"flag": True, "retainDays": 90}}))
    monkeypatch.setattr(synth, "ROOT", tmp_path)
    monkeypatch.setenv("AWS_PROFILE", "production")
    return tmp_path


def test_the_context_is_that_of_cdk_json_and_ours_over_it(project: Path, reaper: Reaper) -> None:
    (project / "app.py").write_text(APP)
    assembly = synthesize(reaper, reaper.folder("test"), {"retainDays": 7})
    assert assembly.template == {"Context": {"flag": True, "retainDays": 7}, "Profile": None}


def test_what_the_app_complains_about_is_told(project: Path, reaper: Reaper) -> None:
    (project / "app.py").write_text("import sys; print('noise'); sys.exit('tocsin: bad option')")
    with pytest.raises(LocalError, match="does not synthesise: tocsin: bad option"):
        synthesize(reaper, reaper.folder("test"))


def test_the_pinned_node_comes_first() -> None:
    first = Path(synth._path_with_node().split(os.pathsep)[0])
    assert (first / "node").is_file()

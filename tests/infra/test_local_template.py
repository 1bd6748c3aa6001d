"""The embedded AWS runs what is deployed to AWS: the templates differ in the layer alone."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from .conftest import synthesise

if TYPE_CHECKING:
    from pathlib import Path

LAYER = "AWS::Lambda::LayerVersion"
CONTEXT = {"emails": "ops@example.com", "phones": "+15551230000"}


def comparable(template: dict[str, Any]) -> dict[str, Any]:
    """The template without what may differ: the layer's content and the functions' Runtime."""
    for resource in template["Resources"].values():
        resource.pop("Metadata", None)  # paths of assets on this machine
        if resource["Type"] == LAYER:
            resource["Properties"] = {}
        if resource["Type"] == "AWS::Lambda::Function":
            resource["Properties"].pop("Runtime", None)
    return template


def test_the_local_template_is_the_deployed_one_but_for_the_layer(tmp_path: Path) -> None:
    local = {"tocsin:layerRuntime": "local", "tocsin:localPython": sys.executable}
    there = synthesise(tmp_path / "aws", CONTEXT).template
    here = synthesise(tmp_path / "local", {**CONTEXT, **local}).template
    layers = [
        resource
        for template in (there, here)
        for resource in template["Resources"].values()
        if resource["Type"] == LAYER
    ]
    assert len(layers) == 2
    assert comparable(dict(here)) == comparable(dict(there))

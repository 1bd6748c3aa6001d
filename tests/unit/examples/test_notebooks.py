"""The notebooks of the gallery have outputs, of the cells that they have now."""

from __future__ import annotations

import json
from typing import Any

import pytest

from examples.notebooks import HERE, NOTEBOOKS, with_outputs


def code(outputs: list[Any], count: int | None = None) -> dict[str, Any]:
    return {"cell_type": "code", "execution_count": count, "outputs": outputs, "source": "x"}


def test_large_and_printed_outputs_are_left_out() -> None:
    small = {"output_type": "display_data", "data": {"image/svg+xml": "<svg/>"}}
    large = {"output_type": "display_data", "data": {"text/html": "x" * 200_000}}
    printed = {"output_type": "stream", "name": "stderr", "text": "tocsin: …"}
    text = {"cell_type": "markdown", "source": "words"}
    made = with_outputs(
        {"cells": [text, code([])]}, {"cells": [text, code([printed, large, small], 3)]}
    )
    assert made == {"cells": [text, code([small], 3)]}


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_shows_something(name: str) -> None:
    cells = json.loads((HERE / name / "notebook.ipynb").read_text())["cells"]
    ran = [cell for cell in cells if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in ran] == [*range(1, len(ran) + 1)]
    assert any(output.get("data") for cell in ran for output in cell["outputs"])
    kinds = {output["output_type"] for cell in ran for output in cell["outputs"]}
    assert kinds <= {"display_data", "execute_result"}  # no error

"""How many steps a training is to have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tocsin.report import report_on
from tocsin.tensors import LocalStorage
from tocsin_hooks import Hook


@pytest.mark.parametrize("planned", [None, 50])
def test_hook_says_it_and_the_report_knows_it(planned: int | None, tmp_path: Path) -> None:
    hook = Hook(tmp_path / "run", save_interval=1, planned_steps=planned)
    for _ in range(3):
        with hook.step():
            hook.save("loss", np.float32(1.0), collection="losses")
    hook.close()

    assert report_on(LocalStorage(tmp_path / "run")).run.planned == planned

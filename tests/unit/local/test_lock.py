from __future__ import annotations

from pathlib import Path

import pytest

from local.error import LocalError
from local.lock import holder, locked


def test_a_file_is_held_until_the_end_of_the_block(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert holder(path) is None
    with locked(path) as file:
        print("me", file=file, flush=True)
        assert holder(path) == "me\n"
        with pytest.raises(LocalError, match="another process holds"), locked(path, wait=0.05):
            pass
    assert holder(path) is None
    with locked(path, wait=0):
        assert holder(path) == "me\n"

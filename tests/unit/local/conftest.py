from __future__ import annotations

from collections.abc import Iterator

import pytest

from local.reaper import Reaper


@pytest.fixture
def reaper() -> Iterator[Reaper]:
    with Reaper() as reaper:
        yield reaper

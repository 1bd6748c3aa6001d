from __future__ import annotations

import pytest

from tests.unit.alerts.world import Fake


@pytest.fixture
def fake() -> Fake:
    return Fake()

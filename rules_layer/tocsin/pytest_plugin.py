"""The plugin of pytest: a fixture, so that a test need import nothing.

pytest loads this module at every start in an environment with Tocsin: it imports nothing heavy.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.fixture(scope="session")
def assert_healthy() -> Callable[..., None]:
    """``tocsin.testing.assert_healthy``: asserts that a run is healthy."""
    from tocsin.testing import assert_healthy as function

    return function

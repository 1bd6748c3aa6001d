from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.room import aws_in_process


@pytest.fixture
def aws() -> Iterator[None]:
    """moto's AWS, empty."""
    with aws_in_process():
        yield

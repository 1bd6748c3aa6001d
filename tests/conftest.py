"""What every test runs under."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# How fast a machine is decides nothing here; the same examples every time do.
settings.register_profile(
    "tocsin",
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("tocsin")

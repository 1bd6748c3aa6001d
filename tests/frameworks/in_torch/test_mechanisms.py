"""The mechanisms that the detection benchmark can switch off are in the hook."""

from __future__ import annotations

import pytest

from benchmarks.detection.mechanisms import MECHANISMS, VARIABLE, resolved, switch_off


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_mechanism_is_switched_off(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    places = [resolved(place) for place in MECHANISMS[name]]
    for owner, attribute in places:
        monkeypatch.setattr(owner, attribute, vars(owner)[attribute])  # restored after the test
    monkeypatch.setenv(VARIABLE, name)
    switch_off()
    now = [vars(owner)[attribute] for owner, attribute in places]
    assert now == [*MECHANISMS[name].values()]

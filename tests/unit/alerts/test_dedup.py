"""Alertmanager's table of what needs a notification, restated; and what is taken only once."""

from __future__ import annotations

import pytest
from tocsin.alerts import Send, Sent
from tocsin.alerts._dedup import needs_update

HOUR = 3600.0
NOW = 100 * HOUR
OLD, RECENT = NOW - HOUR, NOW - HOUR / 2


def ids(*rules: str) -> dict[str, str]:
    return {rule: f"{rule}-id" for rule in rules}


@pytest.mark.parametrize(
    ("sent", "firing", "resolved", "reason"),
    [
        pytest.param(None, ids("a"), {}, Send.FIRST, id="nothing told before"),
        pytest.param(None, {}, {}, None, id="nothing at all"),
        pytest.param(None, {}, ids("a"), None, id="over before it was told"),
        pytest.param(Sent(), ids("a"), {}, Send.FIRST, id="told, of nothing"),
        pytest.param(Sent(ids("a"), {}, RECENT), ids("a"), {}, None, id="told lately"),
        pytest.param(Sent(ids("a"), {}, OLD), ids("a"), {}, Send.REPEAT, id="told an hour ago"),
        pytest.param(Sent(ids("a"), {}, OLD + 1), ids("a"), {}, None, id="a second short of it"),
        pytest.param(
            Sent(ids("a"), {}, RECENT), ids("a", "b"), {}, Send.NEW_IN_GROUP, id="one more"
        ),
        pytest.param(
            Sent(ids("a"), {}, OLD), ids("a", "b"), {}, Send.NEW_IN_GROUP, id="one more, and old"
        ),
        pytest.param(Sent(ids("a", "b"), {}, RECENT), ids("a"), {}, None, id="one less, untold"),
        pytest.param(
            Sent(ids("a"), {}, RECENT), {"a": "again"}, {}, Send.NEW_IN_GROUP, id="fired again"
        ),
        pytest.param(
            Sent({}, ids("a"), RECENT), {"a": "again"}, {}, Send.FIRST, id="fired again, was over"
        ),
        pytest.param(Sent(ids("a"), {}, RECENT), {}, ids("a"), Send.ALL_RESOLVED, id="all is over"),
        pytest.param(
            Sent(ids("a", "b"), {}, RECENT),
            ids("b"),
            ids("a"),
            Send.NEWLY_RESOLVED,
            id="one is over, one goes on",
        ),
        pytest.param(
            Sent(ids("b"), ids("a"), RECENT), ids("b"), ids("a"), None, id="over, and told so"
        ),
        pytest.param(Sent({}, ids("a"), OLD), {}, ids("a"), None, id="all over, and told so"),
        pytest.param(Sent(ids("a"), {}, OLD), {}, {}, None, id="over, not to be told"),
    ],
)
def test_what_needs_to_be_told(
    sent: Sent | None, firing: dict[str, str], resolved: dict[str, str], reason: Send | None
) -> None:
    assert needs_update(sent, firing, resolved, repeat=HOUR, now=NOW) is reason


def test_nothing_is_repeated_without_an_interval() -> None:
    assert needs_update(Sent(ids("a"), {}, 0.0), ids("a"), {}, repeat=None, now=NOW) is None

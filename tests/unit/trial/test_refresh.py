"""Looking for news, or not."""

from __future__ import annotations

import pytest
from tocsin.trial import no_refresh, refresh


def test_without_looking(run):
    trial = run.collections().step(0).trial()
    with no_refresh(trial) as same:
        run.step(1)
        assert same is trial
        assert (trial.steps(), trial.has_tensor("x")) == ([0], False)
        with refresh(trial):
            assert trial.steps() == [0, 1]
        run.step(2)
        assert trial.steps() == [0, 1]
    assert trial.steps() == [0, 1, 2]


@pytest.mark.parametrize("context", [refresh, no_refresh])
@pytest.mark.parametrize("before", [True, False])
def test_what_was_is_put_back(run, context, before):
    one, two = run.collections().step(0).trial(), run.trial()
    one.dynamic_refresh = before
    for trials in ([one, two], (one, two)):
        with context(trials):
            assert [t.dynamic_refresh for t in (one, two)] == [context is refresh] * 2
        assert (one.dynamic_refresh, two.dynamic_refresh) == (before, True)
        with pytest.raises(KeyError), context(trials):
            raise KeyError
        assert (one.dynamic_refresh, two.dynamic_refresh) == (before, True)

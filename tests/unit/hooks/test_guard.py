from __future__ import annotations

import itertools
import logging
from operator import attrgetter
from pathlib import Path

import numpy as np
import pytest
from tocsin.watch import to_watch
from tocsin_hooks import Hook, modes
from tocsin_hooks.guard import Guard, MeantForTraining, guarded

from tests.injection import harmful


class Guarded:
    def __init__(self) -> None:
        self.reported: list[tuple[str, str]] = []

    def trouble(self, what: str, error: Exception) -> None:
        self.reported.append((what, str(error)))

    @guarded(attrgetter("trouble"), "%s is not captured", otherwise=7)
    def method(self, error: BaseException | None) -> int:
        if error is not None:
            raise error
        return 1

    @guarded(attrgetter("trouble"), lambda self, name, *_: f"{name} is 100 % lost")
    def of_name(self, name: str) -> None:
        raise ValueError("why")

    @guarded(attrgetter("nothing_like_it"), "it")
    def without_report(self) -> None:
        raise ValueError("why")

    def block(self, error: BaseException | None) -> int:
        with Guard(self.trouble, "%s is not captured", "method"):
            return self.method.__wrapped__(self, error)  # type: ignore[attr-defined, no-any-return]
        return 7


@pytest.mark.parametrize("call", [Guarded.method, Guarded.block])
def test_an_error_is_reported_and_goes_no_further(call: object) -> None:
    it = Guarded()
    assert call(it, None) == 1  # type: ignore[operator]
    assert call(it, ValueError("why")) == 7  # type: ignore[operator]
    assert it.reported == [("method is not captured", "why")]


@pytest.mark.parametrize("call", [Guarded.method, Guarded.block])
@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, MeantForTraining])
def test_what_the_training_is_to_see_passes(call: object, kind: type[BaseException]) -> None:
    it = Guarded()
    with pytest.raises(kind):
        call(it, kind())  # type: ignore[operator]
    assert it.reported == []


def test_the_report_may_name_what_is_lost_and_may_fail() -> None:
    it = Guarded()
    it.of_name(name="50 %")
    it.without_report()
    with Guard(it.trouble, "%d is not captured", "no number"):
        raise ValueError("why")
    assert it.reported == [("50 % is 100 % lost", "why")]


WATCH = to_watch(
    {
        "rules": ["WeightUpdateRatio", "DeadRelu", {"rule": "ClassImbalance", "exclude": "x"}],
        "capture": {"collections": {"fc": {"include_regex": "^fc", "reductions": "mean"}}},
    }
)

_MAKING = (
    "Life.__init__",
    "uncaught",
    "CapturedLoop.__init__",
    "Position.__init__",
    "Meter.__init__",
    "Memory.__init__",
    "NamedSaves.__init__",
)
"""What a hook is made of: these only set fields, and there is no hook yet to guard them."""


def test_no_error_of_ours_reaches_a_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("tocsin"), "disabled", True)
    monkeypatch.delenv("TRAINING_JOB_NAME", raising=False)
    runs = itertools.count()

    def training() -> object:
        weights, losses = np.ones(4), []
        hook = Hook(tmp_path / str(next(runs)), WATCH, save_interval=1, poll_interval=0.01)
        for _ in range(2):
            with hook.step(modes.TRAIN):
                weights = weights * 0.5
                losses.append(float(hook.record_loss(weights.sum())))
                hook.save("fc.weight", weights, "weights")
                hook.save("relu", weights, "activation_outputs", kind="relu")
                hook.save("labels", np.arange(4), "labels")
            if hook.begin(modes.EVAL) or hook.wants("loss", "losses"):
                hook.save("loss", 1.0)
            hook.end()
            assert not hook.should_stop
        assert hook.position is not None
        hook.close(timeout=5)
        return losses

    assert set(harmful(training)) == {f"{each} raises into the training" for each in _MAKING}

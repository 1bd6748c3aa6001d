from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tocsin.evaluation import Ready, Seen, check, document
from tocsin.evaluation import _loader as loader
from tocsin.evaluation._selection import Selection
from tocsin.model import Mode, Role, TensorSummary
from tocsin.rules import Tensor
from tocsin.tensors import (
    Captured,
    Collection,
    Collections,
    LocalStorage,
    Object,
    read_index,
    reduction_name,
    write_step,
)
from tocsin.watch import Watch, resolve

Rules = Callable[..., Watch]
EVIL = r"^(a|aa)+$"  # tries exponentially many ways before it gives up
LOSSES = Collections(1, {"losses": Collection("losses", include_regex=("^loss",))}, ("worker_0",))


def load(
    tmp_path: Path,
    tensors: list[Captured],
    watch: Watch,
    collections: Collections | None = LOSSES,
    damage: Callable[[LocalStorage], None] = lambda storage: None,
) -> tuple[dict[str, dict[str, tuple[Tensor, ...]]], tuple[str, ...]]:
    """What each rule sees of a step with these tensors, and what could not be read."""
    storage = LocalStorage(tmp_path)
    write_step(storage, step=3, mode=Mode.TRAIN, mode_step=3, tensors=tensors)
    damage(storage)
    (found,) = storage.list("index/")
    assert isinstance(found, Object)
    ready = Ready(3, (Seen(read_index(storage, found), 7.0),), 0)
    watched, refused = resolve(watch)
    assert not refused
    loaded = loader.load(ready, Selection(watched, collections), storage)
    return {
        rule: dict(step.tensors)
        for rule, step in loaded.steps.items()
    }, loaded.unreadable


def test_summaries_are_used_as_captured_and_values_are_not_read(
    tmp_path: Path, watch: Rules
) -> None:
    summary = TensorSummary(size=2, nan=0, posinf=0, neginf=0, mean=5.0, abs_mean=5.0)
    seen, _ = load(
        tmp_path,
        [Captured("loss", [1.0, 2.0], summary=summary)],
        watch("LossNotDecreasing"),
        damage=lambda s: s.write("events/000000000003/000000000003_worker_0.tfevents", b""),
    )
    (tensor,) = seen["LossNotDecreasing"]["losses"]
    assert tensor.summary.mean == 5.0
    assert tensor.value is None


def test_values_give_the_summary_where_none_was_captured(tmp_path: Path, watch: Rules) -> None:
    seen, _ = load(tmp_path, [Captured("loss", np.float32([1, 3]))], watch("LossNotDecreasing"))
    (tensor,) = seen["LossNotDecreasing"]["losses"]
    assert (tensor.summary.mean, tensor.role, tensor.shape) == (2.0, Role.LOSS, (2,))


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ({"abs_mean": 1e-9}, {"abs_mean": 1e-9, "nan": 0}),
        ({"mean": np.nan, "max": np.inf}, {"mean": None, "nan": 1, "posinf": 1}),
        ({"sum": 3.0}, {"abs_mean": None, "nan": None}),
    ],
)
def test_reductions_stand_in_for_a_tensor(
    tmp_path: Path,
    watch: Rules,
    stored: dict[str, float],
    expected: dict[str, float | None],
) -> None:
    tensors = [
        Captured(reduction_name(name, "gradient/w"), np.float32(value))
        for name, value in stored.items()
    ]
    rule = {"rule": "VanishingGradient", "parameters": {"tensor_regex": "gradient"}}
    seen, _ = load(tmp_path, tensors, watch(rule))
    found = {t.name: t.summary for t in seen["VanishingGradient"]["gradients"]}
    if "sum" in stored:
        assert found == {}
    else:
        seen_fields = {key: getattr(found["gradient/w"], key) for key in expected}
        assert seen_fields == {
            key: value if value is None else pytest.approx(value) for key, value in expected.items()
        }


def test_an_unreadable_tensor_is_named_and_the_others_are_seen(
    tmp_path: Path, watch: Rules
) -> None:
    def damage(storage: LocalStorage) -> None:
        key = "events/000000000003/000000000003_worker_0.tfevents"
        data = bytearray(storage.read(key))
        data[3] ^= 1
        storage.write(key, bytes(data))

    seen, unreadable = load(
        tmp_path,
        [Captured("loss_a", [1.0]), Captured("loss_b", [2.0])],
        watch("LossNotDecreasing"),
        damage=damage,
    )
    known = {t.name: t.summary.mean for t in seen["LossNotDecreasing"]["losses"]}
    assert known == {"loss_a": None, "loss_b": 2.0}
    assert len(unreadable) == 1
    assert unreadable[0].startswith("step 3, worker_0, loss_a: ")


def test_more_bytes_than_a_step_may_have_are_not_read(
    tmp_path: Path, watch: Rules, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loader, "STEP_BYTES", 100)
    seen, unreadable = load(
        tmp_path, [Captured("loss", np.zeros(1000))], watch("LossNotDecreasing")
    )
    assert seen["LossNotDecreasing"]["losses"][0].summary.mean is None
    assert "more than 100 bytes" in unreadable[0]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"a/relu", "a/fc", "b/fc"}),
        ({"include": "^a/"}, {"a/relu", "a/fc"}),
        ({"exclude": ["relu", "^b"]}, {"a/fc"}),
        ({"parameters": {"tensor_regex": "relu"}}, {"a/relu"}),
        ({"parameters": {"collection_names": "mine"}}, {"b/fc"}),
        ({"parameters": {"collection_names": "mine", "tensor_regex": "relu"}}, {"a/relu", "b/fc"}),
        ({"parameters": {"collection_names": "all"}}, {"a/relu", "a/fc", "b/fc"}),
        ({"parameters": {"collection_names": "unknown"}}, set()),
    ],
)
def test_which_tensors_a_rule_sees(
    tmp_path: Path, watch: Rules, options: dict[str, object], expected: set[str]
) -> None:
    mine = Collections(1, {"mine": Collection("mine", tensor_names=("b/fc",))}, ("worker_0",))
    tensors = [Captured(name, [1.0]) for name in ("a/relu", "a/fc", "b/fc")]
    seen, _ = load(tmp_path, tensors, watch({"rule": "ExplodingTensor", **options}), mine)
    assert {t.name for t in seen["ExplodingTensor"]["tensors"]} == expected


def test_a_role_in_the_index_goes_before_the_collections(tmp_path: Path, watch: Rules) -> None:
    tensors = [Captured("loss", [1.0], role="weight"), Captured("other", [1.0], role="loss")]
    seen, _ = load(tmp_path, tensors, watch("LossNotDecreasing"))
    assert [t.name for t in seen["LossNotDecreasing"]["losses"]] == ["other"]


def test_a_pattern_of_the_run_that_never_ends_is_tried_once(tmp_path: Path, watch: Rules) -> None:
    evil = Collection("losses", include_regex=(EVIL,))
    tensors = [Captured(f"{'a' * 40}{number}!", [1.0]) for number in range(20)]
    watched, _ = resolve(watch("LossNotDecreasing"))
    selection = Selection(watched, Collections(1, {"losses": evil}, ("worker_0",)))
    storage = LocalStorage(tmp_path)
    write_step(storage, step=0, mode=Mode.TRAIN, mode_step=0, tensors=tensors)
    (found,) = storage.list("index/")
    for entry in read_index(storage, found).entries:
        assert selection.reads(entry) == ()
    assert list(selection.bad_patterns) == [EVIL]


def test_trees_hold_nan_by_design(tmp_path: Path) -> None:
    run = Path(__file__).parents[2] / "fixtures" / "smdebug" / "xgboost" / "run"
    (rule,) = (
        rule
        for rule in document(check(LocalStorage(run))[0])["rules"]
        if rule["Rule"] == "ExplodingTensor"
    )
    assert rule["RuleEvaluationStatus"] == "NoIssuesFound"

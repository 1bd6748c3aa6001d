from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from tocsin.contracts import Contract
from tocsin.evaluation import (
    Checkpoint,
    FoundFile,
    ReadyStep,
    check,
    configure,
    decode_checkpoint,
    document,
    encode_checkpoint,
    fold,
    loading,
)
from tocsin.model import Mode, Role, Severity, TensorSummary, Verdict
from tocsin.rules import HEALTHY, Read, Reads, Rule, State, Step, Tensor
from tocsin.tensors import (
    Captured,
    Collection,
    Collections,
    LocalStorage,
    Object,
    fetching,
    index_key,
    read_index,
    reduction_name,
    write_step,
)
from tocsin.watch import Options, Selection, Watch, Watched, resolve

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
    ready = ReadyStep(3, (FoundFile(read_index(storage, found), 7.0),), 0)
    watched, refused = resolve(watch)
    assert not refused
    loaded = loading.load(ready, Selection(watched, collections), storage, {}, LocalStorage, {})
    return {rule: dict(step.tensors) for rule, step in loaded.steps.items()}, loaded.unreadable


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
    monkeypatch.setattr(fetching, "STEP_BYTES", 10_000)
    tensors = [Captured(f"loss_{number}", np.zeros(1000)) for number in range(3)]
    seen, unreadable = load(tmp_path, tensors, watch("LossNotDecreasing"))
    means = [tensor.summary.mean for tensor in seen["LossNotDecreasing"]["losses"]]
    assert means == [0.0, None, None]
    assert [line.partition(": ")[2] for line in unreadable] == [
        "the step has more than 10000 bytes to read"
    ] * 2


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


@pytest.mark.parametrize("written", ["kl_div_input_not_log", "kl_not_log"])
@pytest.mark.parametrize("named", ["kl_div_input_not_log", "kl_not_log"])
def test_a_contract_is_left_out_by_either_of_its_ids(
    tmp_path: Path, watch: Rules, written: str, named: str
) -> None:
    names = [f"contract/{each}/a.py:1" for each in (written, "mine.price")]
    price = Contract("mine.price", Severity.INFO, "a price is negative")
    tensors = [Captured(name, [1.0], role="contract", contract=price) for name in names]
    for exclude, left in ((f"contract/{named}/", names[1:]), ("b.py", names)):
        rules = watch({"rule": "BrokenContract", "exclude": exclude})
        seen, _ = load(tmp_path, tensors, rules)
        found = seen["BrokenContract"]["contracts"]
        assert [t.name for t in found] == left
        assert found[-1].contract == price


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
        assert selection.chosen(entry) is None
    assert [where for where, _ in selection.bad_patterns] == [
        f"pattern {EVIL!r} of collection losses"
    ]


def test_trees_hold_nan_by_design(tmp_path: Path) -> None:
    run = Path(__file__).parents[2] / "fixtures" / "smdebug" / "xgboost" / "run"
    (rule,) = (
        rule
        for rule in document(check(LocalStorage(run))[0])["rules"]
        if rule["Rule"] == "ExplodingTensor"
    )
    assert rule["RuleEvaluationStatus"] == "NoIssuesFound"


@dataclass(frozen=True)
class Looking(Rule):
    """Looks at tensors and keeps what it saw, for tests of what is shown to it."""

    back: int = 0
    values: bool = False
    update: bool = False

    def reads(self) -> Reads:
        fields = ("update_l1", "update_l2") if self.update else ("mean",)
        return Reads({"all": Read(fields=fields, values=self.values, back=self.back)})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        seen = [
            {
                "now": None if tensor.value is None else tensor.value.tolist(),
                "mean": tensor.summary.mean,
                "update": [tensor.summary.update_l1, tensor.summary.update_l2],
                "past": [None if t.value is None else t.value.tolist() for t in tensor.previous],
                "past_means": [t.summary.mean for t in tensor.previous],
            }
            for tensor in step.tensors["all"]
        ]
        return {"seen": [*state.get("seen", []), *seen]}, HEALTHY


def looked_at(
    tmp_path: Path, rule: Looking, saves: list[Captured], modes: str = "ttt"
) -> list[dict[str, object]]:
    """What the rule saw, step by step, with the checkpoint stored between the steps."""
    storage = LocalStorage(tmp_path)
    reads = rule.reads()
    watched = Watched(
        "L", "L", rule, reads, Options(), Severity.INFO, (), dry_run=False, fingerprint=""
    )
    checkpoint = configure(Checkpoint(storage.url), [watched], ())
    selection = Selection((watched,), None)
    for number, save in enumerate(saves):
        mode = Mode.TRAIN if modes[number] == "t" else Mode.EVAL
        write_step(storage, step=number, mode=mode, mode_step=number, tensors=[save])
        found = storage.head(index_key(number, "worker_0"))
        ready = ReadyStep(number, (FoundFile(read_index(storage, found), 7.0),), 0)
        loaded = loading.load(ready, selection, storage, checkpoint.references, LocalStorage, {})
        checkpoint = replace(
            fold(checkpoint, [watched], loaded.steps), references=loaded.references
        )
        checkpoint = decode_checkpoint(encode_checkpoint(checkpoint))
    return list(checkpoint.rules["L"].state["seen"])


def test_a_rule_looks_back_at_earlier_saves_of_the_same_mode(tmp_path: Path) -> None:
    saves = [Captured("w", np.float32([number, 1])) for number in range(5)]
    seen = looked_at(tmp_path, Looking(back=2, values=True), saves, "ttett")
    assert [item["past"] for item in seen] == [
        [],
        [[0, 1]],
        [],
        [[1, 1], [0, 1]],
        [[3, 1], [1, 1]],
    ]


def test_looking_back_without_values_shows_summaries(tmp_path: Path) -> None:
    raw = [Captured("w", np.float32([number])) for number in range(3)]
    seen = looked_at(tmp_path, Looking(back=1), raw)
    assert [item["past_means"] for item in seen] == [[], [0.0], [1.0]]
    assert all(item["now"] is None and item["past"] in ([], [None]) for item in seen)
    summarized = [
        Captured("w", shape=(1,), summary=TensorSummary(mean=float(number))) for number in range(3)
    ]
    seen = looked_at(tmp_path / "s", Looking(back=1, values=True), summarized)
    assert [item["past_means"] for item in seen] == [[], [0.0], [1.0]]


def test_an_update_that_was_not_captured_is_computed_from_the_values(tmp_path: Path) -> None:
    saves = [Captured("w", np.float32([0, number * 3, number * 4])) for number in range(3)]
    seen = looked_at(tmp_path, Looking(update=True), saves)
    assert [item["update"] for item in seen] == [[None, None], [7.0, 5.0], [7.0, 5.0]]
    captured = Captured("w", [1.0], summary=TensorSummary(update_l1=2.0, update_l2=1.5))
    assert looked_at(tmp_path / "s", Looking(update=True), [captured])[0]["update"] == [2.0, 1.5]


def test_a_tensor_that_changed_its_shape_has_no_update(tmp_path: Path) -> None:
    saves = [Captured("w", np.zeros(3)), Captured("w", np.zeros(4))]
    seen = looked_at(tmp_path, Looking(update=True), saves)
    assert seen[1]["update"] == [None, None]

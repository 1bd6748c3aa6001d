from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tocsin.evaluation import check, document
from tocsin.model import Role, Severity, Verdict
from tocsin.rules import HEALTHY, Read, Reads, Rule, State, Step
from tocsin.tensors import Collection, Collections, Entry, LocalStorage
from tocsin.watch import Options, Selection, Watched

FIXTURES = Path(__file__).parents[2] / "fixtures" / "smdebug"
IN, OUT = Role.ACTIVATION_INPUT, Role.ACTIVATION_OUTPUT


@dataclass(frozen=True)
class Reading(Rule):
    """Reads what a test asks for."""

    read: Read = field(default_factory=Read)

    def reads(self) -> Reads:
        return Reads({"found": self.read})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        return state, HEALTHY


def selection(read: Read = Read(), **collections: str) -> Selection:  # noqa: B008 - frozen
    """One rule, in a run whose collections have these patterns."""
    rule = Reading(read)
    watched = Watched(
        "R", "R", rule, rule.reads(), Options(), Severity.INFO, (), dry_run=False, fingerprint=""
    )
    known = {name: Collection(name, (pattern,)) for name, pattern in collections.items()}
    return Selection((watched,), Collections(1, known, ("worker_0",)) if known else None)


@pytest.mark.parametrize(
    ("entry", "collections", "role", "kind"),
    [
        # the index
        (Entry("loss", role="weight"), {"losses": "loss"}, Role.WEIGHT, None),
        (Entry("x", role="activation_output", kind="tanh"), {}, OUT, "tanh"),
        (Entry("relu_output_0", kind="mine"), {}, OUT, "mine"),
        (Entry("relu_output_0", role="activation_output"), {}, OUT, "relu"),
        (Entry("relu_output_0", role="prediction"), {}, Role.PREDICTION, None),
        (Entry("fc.weight", role="no such"), {}, Role.WEIGHT, None),
        # the collections
        (Entry("fc.weight"), {"gradients": "weight"}, Role.GRADIENT, None),
        (Entry("relu_output_0"), {"outputs": "relu"}, Role.PREDICTION, None),
        (Entry("act3"), {"activation_outputs": "act"}, OUT, None),
        (Entry("relu_output_0"), {"activation_outputs": "relu"}, OUT, "relu"),
        (Entry("act3"), {"relu_output": "act"}, OUT, "relu"),
        (Entry("act3"), {"relu_input": "act"}, IN, "relu"),
        (Entry("act3"), {"tanh_inputs": "act"}, IN, "tanh"),
        (Entry("act3"), {"sigmoid_output": "act", "activation_outputs": "act"}, OUT, "sigmoid"),
        (Entry("act3"), {"tanh_output": "act", "weights": "act"}, Role.WEIGHT, None),
        (Entry("act3"), {"swish_output": "act"}, None, None),
        (Entry("loss"), {"mine": "loss"}, Role.LOSS, None),
        (Entry("train-auc"), {"losses": "^train"}, Role.METRIC, None),
        (Entry("train-map@5"), {"losses": "^train", "metrics": "^train"}, Role.METRIC, None),
        (Entry("train-rmse"), {"metrics": "^train"}, Role.METRIC, None),
        # the name
        (Entry("fc.weight"), {}, Role.WEIGHT, None),
        (Entry("conv0_relu_input_0"), {}, IN, "relu"),
        (Entry("trees/Node"), {}, Role.TREE, "node"),
        (Entry("trees/Node"), {"trees": "^trees/"}, Role.TREE, "node"),
        (Entry("x"), {}, None, None),
    ],
)
def test_index_then_collections_then_name(
    entry: Entry, collections: dict[str, str], role: Role | None, kind: str | None
) -> None:
    found = selection(**collections)
    assert found.place(entry) == (role, kind)


def test_entries_of_one_name_may_differ() -> None:
    found = selection()
    entries = [Entry("relu_output_0", kind="tanh"), Entry("relu_output_0"), Entry("relu_output_0")]
    assert [found.place(entry)[1] for entry in entries] == ["tanh", "relu", "relu"]


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (Read(roles=(OUT,)), {"relu1_output_0", "Tanh_output_0", "LeakyReLU_output_0"}),
        (Read(roles=(OUT,), kinds=("relu",)), {"relu1_output_0"}),
        (Read(roles=(OUT,), kinds=("relu", "tanh")), {"relu1_output_0", "Tanh_output_0"}),
        (Read(kinds=("tanh",)), {"Tanh_output_0", "Tanh_input_0"}),
        (Read(roles=(OUT,), kinds=("gelu",)), set()),
        (Read(roles=(OUT,), kinds=("relu",)).explicitly((), ("^Tanh",)),
         {"Tanh_output_0", "Tanh_input_0"}),
        (Read(roles=(OUT,)).explicitly(("mine",), ()), {"fc.weight"}),
    ],
)  # fmt: skip
def test_kinds_narrow_roles(read: Read, expected: set[str]) -> None:
    found = selection(read, mine="fc")
    names = ("relu1_output_0", "Tanh_output_0", "Tanh_input_0", "LeakyReLU_output_0", "fc.weight")
    assert {name for name in names if found.chosen(Entry(name))} == expected


@pytest.mark.parametrize(
    ("run", "rule"),
    [
        ("torch_mlp", "VanishingGradient"),
        ("torch_mlp", "LossNotDecreasing"),
        ("reductions", "VanishingGradient"),
        ("reductions", "LossNotDecreasing"),
        ("multi_worker", "VanishingGradient"),
        ("xgboost", "LossNotDecreasing"),
    ],
)
def test_a_run_without_collections_is_understood(tmp_path: Path, run: str, rule: str) -> None:
    shutil.copytree(FIXTURES / run / "run", tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "collections")
    with_files, without = (
        {one["Rule"]: one for one in document(check(LocalStorage(path))[0])["rules"]}
        for path in (FIXTURES / run / "run", tmp_path / "run")
    )
    assert without[rule] == with_files[rule]
    assert without[rule]["RuleEvaluationStatus"] != "NotApplicable"

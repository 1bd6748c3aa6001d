"""All rules at once over runs that have everything: the verdicts do not depend on the way there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray
from tocsin.evaluation import (
    Checkpoint,
    Hint,
    Lane,
    MemoryTraces,
    Trace,
    check,
    encode_trace,
    evaluate,
    memory_ports,
)
from tocsin.events import StatusChange
from tocsin.model import Mode, Outcome, RuleStatus, Verdict
from tocsin.rules import PROFILES, TRAINING, Step, get_rule, rule_names
from tocsin.tensors import (
    Captured,
    Collection,
    LocalStorage,
    RunMeta,
    RunWriter,
    index_key,
    write_step,
)
from tocsin.watch import PatternMatcher, Watch, resolve, to_watch
from tocsin_hooks.capture import capture
from tocsin_hooks.memory import Memory
from tocsin_hooks.plan import CapturePlan, Saved
from tocsin_hooks.wishes import Wishes

START = 1_700_000_000.0
NOW = START + 100_000
WORKERS = ("worker_0", "worker_1")
SAVES = 36
RULES = [
    name
    for name in rule_names(about=TRAINING)
    if get_rule(name).__module__.startswith("tocsin.rules.")
]
MODES = (Mode.TRAIN, Mode.TRAIN, Mode.EVAL)

NAMED = {  # those that judge nothing without parameters that name tensors
    "AllZero": {"tensor_regex": "weight$"},
    "LossNotDecreasing": {"num_steps": 10},
    "SimilarAcrossRuns": {"other_trials": "other"},
    "Memorises": {"patience": 20},
    "NoSkill": {"patience": 20},
    "TensorVariance": {"tensor_regex": "fc", "max_threshold": 1.0},
    "UnchangedTensor": {"tensor_regex": "weight$"},
    "UnusedFeatures": {"rounds": 3},
    "WorseThanBaseline": {"runs": "other"},
}


@dataclass(frozen=True)
class Save:
    """What a worker saves at a step: names, values, and what a hook knows of them."""

    step: int
    mode: Mode
    mode_step: int
    worker: str
    previous: int | None
    tensors: tuple[tuple[Saved, NDArray[Any]], ...]


def a_run(seed: int) -> list[Save]:
    """Steps of both modes with gaps between them; worker_1 misses some of them; late in the run
    much goes wrong: the loss rises, gradients vanish or are NaN, a weight stands still.
    """
    random = np.random.default_rng(seed)
    weights = {name: random.normal(0, 0.3, (4, 6)).astype(np.float32) for name in ("fc1", "fc2")}
    last: dict[str, int] = {}
    counts = dict.fromkeys(Mode, 0)
    step = int(random.integers(0, 3))
    saves = []
    for at in range(SAVES):
        mode = MODES[at % 3]
        wrong = at > SAVES * 0.6
        for name in weights:
            if not (wrong and name == "fc2") and mode is Mode.TRAIN:
                weights[name] = weights[name] - random.normal(0, 0.01, (4, 6)).astype(np.float32)
        for worker in WORKERS:
            if worker == "worker_1" and random.random() < 0.15:
                continue
            drift = np.float32(0.05) if wrong and worker == "worker_1" else np.float32(0)
            held = {name: weight + drift for name, weight in weights.items()}
            tensors = tuple(_tensors(random, at, mode, held, wrong=wrong))
            saves.append(Save(step, mode, counts[mode], worker, last.get(worker), tensors))
            last[worker] = step
        skipped = int(random.choice([1, 1, 1, 2, 7]))
        step, counts[mode] = step + skipped, counts[mode] + skipped
    return saves


def _tensors(
    random: np.random.Generator,
    at: int,
    mode: Mode,
    weights: dict[str, NDArray[np.float32]],
    *,
    wrong: bool,
) -> Iterator[tuple[Saved, NDArray[Any]]]:
    def saved(
        name: str, collection: str, value: Any, dtype: str = "float32"
    ) -> tuple[Saved, NDArray[Any]]:
        return Saved(name, (collection,)), np.atleast_1d(np.asarray(value, dtype))

    rises = 0.2 * (at - 20) if wrong else 0.0
    yield saved("loss", "losses", 2.0 / (1 + at) + rises + 0.01 * random.random())
    yield saved("accuracy", "metrics", min(0.9, 0.3 + 0.05 * at))
    yield saved("lr", "learning_rates", 0.0 if at == SAVES - 2 else 0.1 * 0.9 ** (at // 5))
    images = random.normal(5, 3, (16, 3, 4, 4))
    yield saved("input", "inputs", images)
    yield saved("input_ids", "inputs", random.integers(0, 99, (8, 12)) * (not wrong), "int64")
    labels = random.choice(3, 32, p=[0.9, 0.08, 0.02] if wrong else [0.4, 0.3, 0.3])
    yield saved("labels", "labels", labels, "int64")
    skill = (0.0 if wrong else 0.5) + 0.01 * random.normal(size=10)
    compared = [2 * (1 - skill), np.full(10, 2.0), np.full(10, 2.0), np.full(10, 64.0)]
    yield saved("cross_entropy/skill", "skills", np.stack(compared, axis=1), "float64")
    yield saved("contract/broadcast/train.py:3", "contracts", float(wrong))
    logits = random.normal(0, 1, (32, 3)) + 2 * np.eye(3)[labels] * (not wrong)
    yield saved("predictions", "predictions", logits)
    if mode is Mode.EVAL:
        return
    for name, weight in weights.items():
        yield saved(f"{name}.weight", "weights", weight)
        yield saved(f"{name}.bias", "biases", np.zeros(4) if at < 5 else random.normal(size=4))
        gradient = random.normal(0, 1e-9 if wrong and name == "fc1" else 1e-2, (4, 6))
        if wrong and at % 7 == 0:
            gradient[0, 0] = np.nan
        yield saved(f"gradient/{name}.weight", "gradients", gradient)
    before = random.normal(-4 if wrong else 0, 2, (16, 6))
    for kind, function in (
        ("relu", lambda x: np.maximum(x, 0)),
        ("tanh", np.tanh),
        ("sigmoid", lambda x: 1 / (1 + np.exp(-x))),
    ):
        yield saved(f"{kind}1_input_0", "activations", 10 * before)
        yield saved(f"{kind}1_output_0", "activations", function(10 * before))
    for feature in range(12):
        splits = 5 + at * (feature == 0 and wrong) if feature < 11 else 0
        yield saved(f"feature_importance/weight/f{feature}", "feature_importance", splits)
    nodes = 31 if wrong else 3
    for column in ("tree", "node", "yes", "no"):
        yield saved(f"trees/{column}", "trees", _tree(column, nodes))


def _tree(column: str, nodes: int) -> list[int]:
    """A complete binary tree as XGBoost lists it: children of n are 2n + 1 and 2n + 2, -1 none."""
    child = {"yes": 1, "no": 2}.get(column)
    if child is None:
        return list(range(nodes)) if column == "node" else [0] * nodes
    return [2 * n + child if 2 * n + child < nodes else -1 for n in range(nodes)]


@dataclass
class Writer:
    """Writes saves as smdebug did (``summaries`` None), or as a hook does that knows the rules."""

    storage: LocalStorage
    summaries: Watch | None = None
    raw: bool = True

    def __post_init__(self) -> None:
        self.wishes = Wishes(self.summaries, PatternMatcher(), alone=False)
        self.memories = {worker: Memory() for worker in WORKERS}
        RunWriter(self.storage).write_collections(
            [
                Collection("losses", tensor_names=("loss",)),
                Collection("skills", include_regex=("/skill$",)),
                Collection("contracts", include_regex=("^contract/",)),
                Collection("weights", include_regex=(r"^fc\d.weight$",)),
            ],
            len(WORKERS),
        )

    def write(self, save: Save) -> None:
        write_step(
            self.storage,
            step=save.step,
            worker=save.worker,
            mode=save.mode,
            mode_step=save.mode_step,
            tensors=[self._captured(save, saved, value) for saved, value in save.tensors],
            meta=RunMeta("run-1", save.previous),
        )
        at = START + save.step + 0.1 * WORKERS.index(save.worker)
        os.utime(Path(self.storage.url) / index_key(save.step, save.worker), (at, at))

    def _captured(self, save: Save, saved: Saved, value: NDArray[Any]) -> Captured:
        if self.summaries is None:
            return Captured(saved.name, value)
        memory = self.memories[save.worker]
        plan = CapturePlan(saved, self.wishes.of(saved)[0], raw=self.raw or None)
        key = f"{save.mode.name}/{saved.name}"
        (captured,) = capture(plan, value, partial(memory.update, key))
        return captured

    def end(self) -> None:
        RunWriter(self.storage).close()
        at = START + 10_000
        os.utime(Path(self.storage.url) / "training_job_end.ts", (at, at))


def every_rule(profile: str) -> Watch:
    rules = [{"rule": name, "parameters": NAMED.get(name, {})} for name in RULES]
    watch = to_watch({"profile": profile, "rules": rules})
    assert resolve(watch)[1] == ()
    return watch


def written(folder: Path, saves: list[Save], **how: Any) -> LocalStorage:
    writer = Writer(LocalStorage(folder), **how)
    for save in saves:
        writer.write(save)
    writer.end()
    return writer.storage


def concluded(checkpoint: Checkpoint) -> Any:
    """What it says of the rules, in words and numbers, without where the run lies."""
    records = {
        name: msgspec.structs.replace(
            r, state={}, last_change=r.last_change and _anywhere(r.last_change)
        )
        for name, r in checkpoint.rules.items()
    }
    return msgspec.to_builtins(records)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(("seed", "captured"), [(0, False), (1, True)], ids=["values", "summaries"])
def test_step_by_step_with_duplicates_equals_in_one_go(
    tmp_path: Path, seed: int, profile: str, captured: bool
) -> None:
    watch, saves = every_rule(profile), a_run(seed)
    written(tmp_path / "other", a_run(seed + 1)[:9])
    how = {"summaries": watch if captured else None}
    writer = Writer(LocalStorage(tmp_path / "run"), **how)
    clock = [START]
    ports = replace(
        memory_ports(writer.storage, lambda: clock[0]), default=watch, traces=MemoryTraces()
    )
    for save in saves:
        writer.write(save)
        clock[0] = START + save.step + 0.5
        for _ in range(2):
            evaluate(Hint(writer.storage.url), ports, owner="me", ends=clock[0] + 60)
    writer.end()
    clock[0] = NOW
    for _ in range(2):
        evaluate(Hint(writer.storage.url), ports, owner="me", ends=clock[0] + 60)
    stepwise = ports.checkpoints.load(writer.storage.url).checkpoint
    trace = Trace()
    whole, _ = check(writer.storage, watch, now=lambda: NOW, on_verdict=trace.add)
    assert stepwise.steps == len({save.step for save in saves})
    for name in whole.rules:
        assert stepwise.rules[name] == whole.rules[name]
    alike = partial(msgspec.structs.replace, wake_at=None, points=())
    assert alike(stepwise) == alike(whole)
    assert ports.traces is not None
    kept = ports.traces.load(writer.storage.url)
    kept.extend(stepwise.points)
    assert kept.lanes[("loss", "TRAIN", "loss", "worker_0")].steps
    for name in whole.rules:
        assert _bytes(kept, name) == _bytes(trace, name)


def _bytes(trace: Trace, rule: str) -> bytes:
    return encode_trace(Trace(lanes={rule: trace.lanes.get(rule, Lane())}))


def _anywhere(change: StatusChange) -> StatusChange:
    return msgspec.structs.replace(change, training_job_name="", run="", dedup_id="")


@pytest.mark.parametrize("profile", PROFILES)
def test_what_a_hook_captured_says_what_the_values_say(tmp_path: Path, profile: str) -> None:
    """Its summaries, beside the values or (for rules that need none) in place of them."""
    watch, saves = every_rule(profile), a_run(2)
    written(tmp_path / "other", a_run(3)[:9])
    values, _ = check(written(tmp_path / "values", saves), watch, now=lambda: NOW)
    both, _ = check(written(tmp_path / "both", saves, summaries=watch), watch, now=lambda: NOW)
    hook, _ = check(
        written(tmp_path / "hook", saves, summaries=watch, raw=False), watch, now=lambda: NOW
    )
    assert concluded(both) == concluded(values)
    assert concluded(hook) == concluded(values)
    judged = {name for name, record in values.rules.items() if record.data_points}
    # For runs without skills, without labels, with hashes of samples, with a guard:
    elsewhere = {"NoBetterThanGuessing", "Collapse", "FewSamples", "FirstEpochGap"}
    elsewhere |= {"TrainEvalOverlap", "UpdatesSkipped"}
    assert judged == set(RULES) - elsewhere
    assert {record.status.value for record in values.rules.values()} == {
        "IssuesFound",
        "NoIssuesFound",
        "NotApplicable",
    }


UNMEASURED = {
    "BrokenContract",  # judges by no number
    *("SigmoidSaturation", "TanhSaturation", "Underfitting"),  # nothing to measure in this run
}


@pytest.mark.parametrize("profile", PROFILES)
def test_judged_steps_have_a_measure_and_violations_are_on_its_wrong_side(
    profile: str, tmp_path: Path
) -> None:
    judged: dict[str, list[Verdict]] = {}

    def note(rule: str, step: Step, verdict: Verdict, status: RuleStatus) -> None:
        if verdict.outcome in (Outcome.HEALTHY, Outcome.VIOLATION):
            judged.setdefault(rule, []).append(verdict)

    written(tmp_path / "other", a_run(2))
    storage = written(tmp_path / "run", a_run(1))
    check(storage, every_rule(profile), now=lambda: NOW, on_verdict=note)

    without = {rule for rule, verdicts in judged.items() if not any(v.measure for v in verdicts)}
    assert without <= UNMEASURED
    assert len(judged) > 25
    wrong = {
        rule
        for rule, verdicts in judged.items()
        for verdict in verdicts
        if verdict.violation and verdict.measure and verdict.measure.excess < 0
    }
    assert wrong == set()

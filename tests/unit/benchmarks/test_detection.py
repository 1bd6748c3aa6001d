"""The detection benchmark's own workings, with those of its trainings that numpy does alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tocsin import create_trial, modes
from tocsin.rules import RECOMMENDED

from benchmarks.detection.evaluate import EVERYTHING, PROFILES, Alarm, Task, evaluate_one
from benchmarks.detection.faults import FAULTS
from benchmarks.detection.healthy import RECIPES, plain
from benchmarks.detection.report import BEGIN, END, PAGE, report, write
from benchmarks.detection.result import Judged, Result
from benchmarks.detection.runs import Run, make_one
from benchmarks.detection.split import (
    HALVES,
    chosen,
    faults_of,
    faulty,
    plain_setups,
    setups,
    sound,
    twin,
)
from benchmarks.detection.symptoms import Symptoms
from benchmarks.detection.training.setup import Setup
from benchmarks.detection.wilson import share, wilson

SOUND = (
    plain("linear", "digits", 7),
    plain("mlp relu", "iris", 7),
    plain("mlp tanh", "diabetes", 7),
    plain("mlp sigmoid", "wine", 7),
    plain("deep relu", "cancer", 7),
    plain("deep tanh", "iris width", 7),
)
SICK = {
    "rate × 100": "mlp tanh diabetes",
    "zero start": "mlp relu iris",
    "missing label": "deep tanh iris width",
    "no updates": "mlp sigmoid wine",
    "flipped gradient": "deep relu cancer",
    "shuffled labels": "linear digits",
}


def of(words: str) -> Setup:
    return next(setup for setup in SOUND if f"{setup.family} {setup.data}" == words)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[Setup, Run]:
    """Six healthy trainings, and each with one fault."""
    folder = tmp_path_factory.mktemp("runs")
    spreading = tuple(replace(setup, seed=seed) for setup in SOUND for seed in (8, 9))
    faulty = tuple(FAULTS[fault](of(words)) for fault, words in SICK.items())
    made = {setup: Run(setup, folder / setup.name) for setup in (*SOUND, *spreading, *faulty)}
    for run in made.values():
        make_one(run)
    return made


@pytest.mark.parametrize("setup", SOUND, ids=lambda setup: setup.name)
def test_a_healthy_training_learns(runs: dict[Setup, Run], setup: Setup) -> None:
    outcome = runs[setup].outcome
    assert outcome.sound
    assert outcome.metric is not None
    assert outcome.metric > (0.35 if setup.data == "diabetes" else 0.8)
    first, *_, last = outcome.evaluations
    assert first is not None
    assert last is not None
    assert last < 0.8 * first


@pytest.mark.parametrize("fault", SICK)
def test_a_fault_shows(runs: dict[Setup, Run], fault: str) -> None:
    run = runs[FAULTS[fault](of(SICK[fault]))]
    symptoms = Symptoms(run for setup, run in runs.items() if not setup.fault)
    assert symptoms.shows(run)


def test_a_healthy_training_is_its_own_twin_and_shows_nothing(runs: dict[Setup, Run]) -> None:
    symptoms = Symptoms(run for setup, run in runs.items() if not setup.fault)
    for setup in SOUND:
        assert twin(setup) == setup
        assert symptoms.loss_of(runs[setup]) == 0
        assert not symptoms.shows(runs[setup])


def alarms(run: Run) -> set[str]:
    evaluated = evaluate_one(Task(run, EVERYTHING))
    assert not evaluated.failed
    return {alarm.rule for alarm in evaluated.of(RECOMMENDED)}


def test_healthy_trainings_disturb_nobody(runs: dict[Setup, Run]) -> None:
    assert {
        s.name: found for s, run in runs.items() if not s.fault and (found := alarms(run))
    } == {}


@pytest.mark.parametrize("fault", SICK)
def test_a_fault_is_found(runs: dict[Setup, Run], fault: str) -> None:
    assert alarms(runs[FAULTS[fault](of(SICK[fault]))])


def test_a_run_has_what_the_rules_read(runs: dict[Setup, Run]) -> None:
    setup = SOUND[1]
    trial = create_trial(str(runs[setup].tensors))
    trained, evaluated = trial.steps(mode=modes.TRAIN), trial.steps(mode=modes.EVAL)
    assert len(trained) == setup.steps // setup.save_interval
    assert len(trained) + len(evaluated) == runs[setup].outcome.saves
    names = set(trial.tensor_names())
    assert {"loss", "accuracy", "learning_rate", "inputs", "labels", "predictions"} <= names
    assert {"dense0.weight", "dense0.bias", "gradient/dense0.weight"} <= names
    assert {"dense0_relu_input_0", "dense0_relu_output_0"} <= names
    assert set(trial.collection("learning_rates").tensor_names) == {"learning_rate"}
    assert trial.tensor("dense0.weight").value(trained[-1], mode=modes.TRAIN).shape == (16, 4)


def test_a_training_is_the_same_each_time(tmp_path: Path) -> None:
    setup = SOUND[1]
    first, again = (Run(setup, tmp_path / name) for name in ("a", "b"))
    for run in (first, again):
        make_one(run)
    assert first.outcome.evaluations == again.outcome.evaluations


def test_a_run_is_made_again_only_for_another_setup(runs: dict[Setup, Run]) -> None:
    run = runs[SOUND[0]]
    assert run.made
    assert not Run(replace(run.setup, learning_rate=1.0), run.folder).made


def test_two_workers_write_one_run(tmp_path: Path) -> None:
    recipe = next(recipe for recipe in RECIPES if recipe.name == "two workers")
    run = Run(recipe(plain("linear", "iris", 3)), tmp_path / "run")
    make_one(run)
    trial = create_trial(str(run.tensors))
    assert trial.workers() == ["worker_0", "worker_1"]
    weight, step = trial.tensor("dense0.weight"), trial.steps(mode=modes.TRAIN)[-1]
    values = [weight.value(step, mode=modes.TRAIN, worker=worker) for worker in trial.workers()]
    assert (values[0] == values[1]).all()


def test_the_halves_share_nothing() -> None:
    tuning, held_out = (setups(half) for half in HALVES)
    assert not {s.data for s in tuning} & {s.data for s in held_out}
    assert not {s.seed for s in tuning} & {s.seed for s in held_out}
    assert not {s.fault for s in tuning if s.fault} & {s.fault for s in held_out if s.fault}


@pytest.mark.parametrize("half", HALVES)
def test_a_half_is_large_enough(half: str) -> None:
    healthy = sound(half)
    assert len(healthy) >= 150
    assert len({setup.family for setup in healthy}) >= 6
    assert len({setup.data for setup in healthy}) >= 5
    assert len(faults_of(half)) >= 12
    assert all(len(faulty(half, fault)) >= 3 for fault in faults_of(half))
    assert len({run.name for run in setups(half)}) == len(setups(half))
    assert set(map(twin, setups(half))) >= set(plain_setups(half))


def test_both_halves_have_every_kind_of_symptom() -> None:
    kinds = [{fault.symptom for fault in faults_of(half)} for half in HALVES]
    assert kinds[0] == kinds[1]


def test_one_fault_comes_with_what_it_is_compared_with() -> None:
    runs = chosen("tuning", "zero start")
    assert {setup.fault for setup in runs} == {"", "zero start"}
    assert {twin(setup) for setup in runs if setup.fault} <= set(runs)
    with pytest.raises(KeyError, match="raw inputs"):
        chosen("tuning", "raw inputs")


@pytest.mark.parametrize(
    ("hits", "count", "interval"),
    [(0, 150, (0.0, 0.025)), (3, 150, (0.0068, 0.0571)), (10, 10, (0.722, 1.0)), (0, 0, (0, 1))],
)
def test_wilson(hits: int, count: int, interval: tuple[float, float]) -> None:
    assert wilson(hits, count) == pytest.approx(interval, abs=1e-3)


def test_a_share_in_words() -> None:
    assert share(3, 150) == "3/150 = 2.0 % (0.7–5.7)"
    assert share(0, 0) == "–"


def judged(setup: Setup, shows: bool, *alarms: Alarm) -> Judged:
    return Judged(Run(setup, Path()), shows, 0.5, dict.fromkeys(PROFILES, alarms))


def test_the_report_counts_runs() -> None:
    fault = FAULTS["zero start"]
    named = Alarm(min(fault.expected), step=8, saves=3, tensor="loss", detail="")
    other = Alarm("StalledTrainingRule", step=20, saves=5, tensor="loss", detail="")
    sick = [fault(setup) for setup in SOUND[:3]]
    text = report(
        Result(
            [
                *(judged(setup, False) for setup in SOUND[:3]),
                judged(SOUND[3], False, other),
                judged(sick[0], True, named, other),
                judged(sick[1], True, other),
                judged(sick[2], False),
            ]
        )
    )
    lines = {line.split(" | ")[0].strip("| "): line for line in text.splitlines()}
    assert "2/2 = 100.0 %" in lines["recommended"]
    assert "1/2 = 50.0 %" in lines["recommended"]
    assert "1/4 = 25.0 %" in lines["recommended"]
    assert "| zero start | does not learn | 2/2 | 4 | 1/2 | 2/2 | 4 |" in text
    assert "| zero start | 0/1 | 0/1 | 0/1 |" in text
    assert "1/4 = 25.0 %" in lines["StalledTrainingRule"]


def test_the_report_is_written_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    write("new\n", page)
    assert page.read_text() == f"before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"
    page.write_text("nothing")
    with pytest.raises(ValueError, match="to write between"):
        write("new", page)


def test_the_page_has_the_marks() -> None:
    assert BEGIN in PAGE.read_text()
    assert END in PAGE.read_text()


def test_the_rules_watch_a_run(runs: dict[Setup, Run]) -> None:
    run = runs[SOUND[0]]
    found = evaluate_one(Task(run, EVERYTHING))
    assert found.run == run.setup.name
    assert not found.failed
    assert set(found.of("recommended")) <= set(found.alarms)

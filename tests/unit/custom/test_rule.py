"""Rules in smdebug's style: by themselves, and as the engine runs them."""

from __future__ import annotations

import inspect
import json
import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from tocsin import Rule, RuleEvaluationConditionMet, invoke_rule, register
from tocsin.custom import native
from tocsin.custom.attributes import decode
from tocsin.evaluation import check
from tocsin.model import Mode, Outcome, Reason, Verdict
from tocsin.rules import HEALTHY, BadRule, Reads, State, Step, _registry, build, rule_names
from tocsin.tensors import Captured, read_index, summarize
from tocsin.trial import NoMoreData, PastTrial, TensorUnavailable, TensorUnavailableForStep
from tocsin.watch import to_watch


@pytest.fixture(autouse=True)
def _registry_of_its_own(monkeypatch):
    monkeypatch.setattr(_registry, "_rules", dict(_registry._rules))


class Above(Rule):
    """The loss is above a threshold."""

    def __init__(self, base_trial, threshold=10.0):
        super().__init__(base_trial)
        self.threshold = float(threshold)

    def set_required_tensors(self, step):
        self.req_tensors.add("loss", steps=[step])

    def invoke_at_step(self, step):
        (loss,) = self.req_tensors.get()
        return loss.value(step) > self.threshold


class Kept(Rule):
    """Remembers in every way, and notes that it was not its own."""

    def __init__(self, base_trial):
        super().__init__(base_trial)
        self.sum = np.zeros(2, np.float32)
        self.seen = set()
        self.by_step = {}
        self.best = float("inf")
        self.last = None
        self.untouched = object()

    def invoke_at_step(self, step):
        loss = self.base_trial.tensor("loss").value(step)
        self.sum += loss
        self.seen.add(step)
        self.by_step[step] = (float(loss[0]), self.last)
        self.best = min(self.best, float(loss[0]))
        self.last = step
        self.report["Violations"] += 1
        return len(self.seen) >= 3 and self.best < loss[0]


def losses(run, values, **options):
    """A run of one loss a step, ended."""
    run.collections()
    for step, value in enumerate(values):
        run.step(step, tensors={"loss": np.float32(value)}, **options)
    return run.end()


def checked(run, *rules):
    checkpoint, report = check(run.storage, to_watch({"rules": list(rules)}))
    assert not report.log
    return checkpoint


# -- by itself --------------------------------------------------------------------------------


def met_at(rule, **options):
    invoke, steps = rule.invoke, []

    def recorded(step):
        try:
            invoke(step)
        except RuleEvaluationConditionMet as met:
            steps.append(met.step)
            raise

    rule.invoke = recorded
    invoke_rule(rule, **options)
    return steps


@pytest.mark.parametrize(
    ("options", "steps"),
    [
        ({}, [2, 4]),
        ({"start_step": 3}, [4]),
        ({"start_step": None, "end_step": 4}, [2]),
        ({"end_step": 0}, []),
        ({"start_step": 99}, []),
    ],
)
def test_invoke_rule_goes_through_a_run_that_has_ended(run, options, steps):
    losses(run, [1, 2, 11, 3, 12])
    assert met_at(Above(run.trial()), **options) == steps


def test_invoke_rule_raises_where_it_is_told_to(run):
    losses(run, [1, 11, 12])
    with pytest.raises(RuleEvaluationConditionMet) as caught:
        invoke_rule(Above(run.trial()), raise_eval_cond=True)
    assert (caught.value.rule_name, caught.value.step) == ("Above", 1)
    assert str(caught.value) == (
        "Evaluation of the rule Above at step 1 resulted in the condition being met"
    )


def test_invoke_rule_waits_for_a_job_that_is_running(run, time):
    run.collections().step(0, tensors={"loss": np.float32(1)})
    time.at(2, lambda: run.step(10, tensors={"loss": np.float32(11)}))
    time.at(4, run.end)
    assert met_at(Above(run.trial(clock=time.clock()))) == [10]
    assert time.now >= 4


def test_invoke_rule_counts_and_leaves_out_nothing_in_silence(run, caplog):
    run.collections().step(0).step(7, tensors={"other": np.float32(1)})
    run.step(10**9, tensors={"loss": np.float32(20)}).end()
    with caplog.at_level(logging.INFO, "tocsin.rules"):
        assert met_at(Above(run.trial())) == [10**9]
    assert "met at 1 steps and not met at 1, 1 were passed over" in caplog.text


def test_a_rule_can_end_itself(run):
    class Ends(Rule):
        def invoke_at_step(self, step):
            raise RuleEvaluationConditionMet("Ends", step, end_of_rule=step == 1)

    assert met_at(Ends(losses(run, [1, 1, 1]).trial())) == [0, 1]


def test_required_tensors(run):
    run.collections().step(0, tensors={"w/a": np.ones(2), "w/b": np.ones(2)})
    run.step(1, captured=[Captured("w/a", shape=(2,), summary=summarize(np.ones(2)))]).end()
    trial = run.trial()
    required = Above(trial, 3).req_tensors
    with pytest.raises(TensorUnavailable, match="nothing"):
        required.add("nothing", steps=[0])
    steps = [0]
    required.add("w/", steps, should_match_regex=True)
    required.add_tensor("w/a", [1], trial)
    assert list(required.get_names()) == ["w/a", "w/b"]
    assert [tensor.name for tensor in required.get()] == ["w/a", "w/b"]
    assert required.get_tensor_steps("w/a") == [0, 1]
    assert required.get_tensor_steps("w/b") == [0] == steps
    with pytest.raises(TensorUnavailableForStep):
        required.fetch()  # of step 1 there is no value
    required.clear()
    assert not required.get()
    required.add("w/a", steps=[5])
    with pytest.raises(NoMoreData, match="step 5"):
        required.fetch()


def test_rules_are_told_apart_and_have_what_they_have_in_smdebug(run):
    trial, other = losses(run, [1]).trial(), run.trial()
    first, second = Above(trial), Above(trial)
    assert first != second
    assert len({first, second}) == 2
    rule = Rule(trial, "", [other])
    assert rule.trials == [trial, other]
    assert rule.report["RuleTriggered"] == 0
    assert rule.rule_name == "Rule"
    with pytest.raises(NotImplementedError):
        rule.invoke(0)


# -- both styles ------------------------------------------------------------------------------


def test_the_same_base_serves_native_rules(run):
    @register
    @dataclass(frozen=True)
    class Native(Rule):
        """A native one."""

        limit: int = 3

        def reads(self) -> Reads:
            return Reads({}, trial=True)

        def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
            steps = step.trial.steps()
            return {"steps": steps}, HEALTHY

    assert Native(limit=3) == Native() != Native(4)
    assert native(Native) is Native
    record = checked(losses(run, [1, 2]), "Native").rules["Native"]
    assert record.state == {"steps": [0, 1]}


def test_neither_style_is_no_rule():
    class Nothing(Rule):
        """Says nothing."""

    with pytest.raises(TypeError, match="rule Nothing: needs reads and evaluate, or invoke_at_st"):
        register(Nothing)


# -- its parameters ---------------------------------------------------------------------------


class Many(Rule):
    def __init__(
        self, trial, action_str, needed, number=1, ratio=0.5, flag=True, text="a", odd=(), **more
    ):
        super().__init__(trial, action_str)
        self.got = [needed, number, ratio, flag, text, list(odd), action_str]

    def invoke_at_step(self, step):
        raise RuntimeError(json.dumps(self.got))


@pytest.mark.parametrize(
    ("parameters", "got"),
    [
        ({}, [None, 1, 0.5, True, "a", [], ""]),
        (
            {"needed": "n", "number": "2", "ratio": "3", "flag": "False", "text": "7"},
            ["n", 2, 3, False, "7", [], ""],
        ),
        ({"number": "0.5", "ratio": "1e-3"}, [None, 0.5, 0.001, True, "a", [], ""]),
        ({"number": "many", "flag": "maybe"}, [None, "many", 0.5, "maybe", "a", [], ""]),
        ({"odd": ["x"], "needed": {"a": 1}}, [{"a": 1}, 1, 0.5, True, "a", ["x"], ""]),
    ],
)
def test_parameters_come_as_typed_or_from_the_wire(run, parameters, got):
    register(Many)
    record = checked(losses(run, [1]), {"rule": "Many", "parameters": parameters}).rules["Many"]
    assert json.loads(record.details.partition("step 0: ")[2].partition(" (test_rule")[0]) == got


def test_unknown_parameters_are_told():
    register(Above)
    with pytest.raises(BadRule, match="unknown parameter 'treshold': did you mean threshold"):
        build("Above", {"treshold": 1})


@pytest.mark.parametrize("profile", ["recommended", "sagemaker"])
def test_it_watches_unasked_unless_it_needs_a_parameter(profile):
    register(Above)
    register(Many)
    assert "Above" in rule_names(profile)
    assert "Many" not in rule_names(profile)


# -- in the engine ----------------------------------------------------------------------------


def test_the_verdict(run):
    register(Above)
    losses(run, [1, 11, 2, 12])
    checkpoint = checked(run, {"rule": "Above", "parameters": {"threshold": "10.5"}})
    record = checkpoint.rules["Above"]
    assert (record.violations, record.data_points) == (2, 4)
    first = record.first_violation
    assert (first.step, first.tensor, first.reason) == (1, None, "custom_rule")
    assert first.detail == "Above returned True at step 1"
    assert record.state == {}


def test_what_the_rule_logs_is_shown_with_its_verdict(run):
    class Talks(Rule):
        """It talks."""

        def invoke_at_step(self, step):
            self.logger.debug("not this")
            self.logger.info("the loss is %.1f", self.base_trial.tensor("loss").value(step).item())
            return step == 1

    register(Talks)
    losses(run, [1, 2, 3])
    first = checked(run, "Talks").rules["Talks"].first_violation
    assert first.detail == "Talks returned True at step 1: the loss is 2.0"


def test_an_exception_says_file_and_line(run):
    class Fails(Rule):
        """It fails."""

        def invoke_at_step(self, step):
            return 1 / 0

    register(Fails)
    losses(run, [1])
    details = checked(run, "Fails").rules["Fails"].details
    line = inspect.getsourcelines(Fails.invoke_at_step)[1] + 1
    assert details.endswith(f"at step 0: division by zero (test_rule.py, line {line})")


def looks_at(run):
    """What a rule that reads the whole run sees at each step of the engine."""
    seen = []

    @register
    @dataclass(frozen=True)
    class Spy(Rule):
        """Looks around."""

        def reads(self) -> Reads:
            return Reads({}, trial=True)

        def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
            seen.append(look(step))
            return state, HEALTHY

    checked(run, "Spy")
    return seen


def test_attributes_survive_from_step_to_step(run):
    """The same in one go, in which the rule lives on, and step by step through JSON."""
    values = [3, 1, 2, 1, 5]
    losses(run, [])
    for step, value in enumerate(values):
        run.step(step, tensors={"loss": np.full(2, value, np.float32)})
    register(Kept)
    checkpoint = checked(run, "Kept")
    record = checkpoint.rules["Kept"]
    alive = Kept(run.trial())
    assert met_at(alive) == [2, 4]
    assert record.violations == 2
    assert (record.first_violation.step, record.last_violation.step) == (2, 4)
    kept = {name: decode(data) for name, data in record.state["attributes"].items()}
    assert kept.keys() == {"sum", "seen", "by_step", "best", "last", "report"}
    assert np.array_equal(kept["sum"], alive.sum)
    assert kept["sum"].dtype == np.float32
    for name in ("seen", "by_step", "best", "last", "report"):
        assert kept[name] == getattr(alive, name)


def look(step):
    """Everything a rule may ask that could tell of later steps."""
    trial = step.trial
    tensor = trial.tensor("loss")
    return {
        "step": step.step,
        "steps": trial.steps(),
        "all": trial.steps(show_incomplete_steps=True),
        "eval": trial.steps(Mode.EVAL),
        "tensor": tensor.steps(),
        "values": list(tensor.values()),
        "names": trial.tensor_names(),
        "modes": trial.modes(),
        "next": trial.has_passed_step(step.step + 1).name,
        "before": trial.has_passed_step(step.step - 5).name,
        "last": trial.last_complete_step,
        "over": trial.loaded_all_steps,
        "mode": trial.mode_modestep(step.step + 10),
        "later": trial.global_step(Mode.EVAL, 2),
        "frame": len(trial.dataframe()),
    }


def test_no_rule_looks_ahead(run):
    run.collections()
    for step in range(0, 50, 10):
        mode = Mode.EVAL if step in (20, 40) else Mode.TRAIN
        tensors = {"loss": np.float32(step)} | ({"late": np.float32(1)} if step == 40 else {})
        run.step(step, mode=mode, mode_step=step // 20, tensors=tensors)
    run.end()
    for number, seen in enumerate(looks_at(run)):
        until = list(range(0, 10 * number + 1, 10))
        assert seen["step"] == until[-1] == seen["last"]
        assert seen["steps"] == seen["all"] == seen["tensor"] == seen["values"] == until
        assert seen["eval"] == [at // 20 for at in until if at in (20, 40)]
        assert seen["names"] == (["loss"] if number < 4 else ["late", "loss"])
        assert seen["modes"] == ([Mode.TRAIN] if number < 2 else [Mode.TRAIN, Mode.EVAL])
        assert (seen["next"], seen["over"]) == ("NOT_YET_AVAILABLE", False)
        assert seen["before"] == "UNAVAILABLE"
        assert seen["mode"] == (None, None)
        assert seen["later"] == (None if number < 4 else 40)
        assert seen["frame"] == len(until) + (number == 4)


class Asks(Rule):
    """Asks for what is not there."""

    def __init__(self, base_trial, what="later"):
        super().__init__(base_trial)
        self.what = what
        self.asked = 0

    def invoke_at_step(self, step):
        self.asked += 1
        if self.what == "later":
            self.base_trial.wait_for_steps([step + 1], timeout=600)
        elif self.what == "tensor":
            self.base_trial.tensor("nothing")
        elif self.what == "value":
            self.base_trial.tensor("loss").value(step)
        elif self.what == "step":
            self.base_trial.tensor("w").value(step - 1)
        return True


@pytest.mark.parametrize(
    ("what", "outcome", "reason"),
    [
        ("later", Outcome.UNDECIDED, Reason.TOO_EARLY),
        ("tensor", Outcome.NOT_APPLICABLE, Reason.NO_TENSOR),
        ("value", Outcome.NOT_APPLICABLE, Reason.NO_TENSOR),
        ("step", Outcome.NOT_APPLICABLE, Reason.NO_TENSOR),
        ("none of these", Outcome.VIOLATION, Reason.CUSTOM_RULE),
    ],
)
def test_what_is_not_there_decides_nothing_but_is_remembered(run, what, outcome, reason):
    summary = Captured("loss", shape=(2,), summary=summarize(np.ones(2)))
    run.collections().step(7, tensors={"w": np.ones(2)}, captured=[summary]).end()
    rule = native(Asks)(what=what)  # type: ignore[call-arg]
    state, verdict = rule.evaluate({}, Step(7, Mode.TRAIN, 7, 0.0, trial=past(run, 7)))
    assert (verdict.outcome, verdict.reason) == (outcome, reason)
    assert state == {"attributes": {"asked": 1}}


def past(run, step):
    trial = PastTrial(run.storage, lambda name: pytest.fail(f"no other run {name}"))
    found = [read_index(run.storage, item) for item in run.storage.list("index/")]
    trial.show(step, [file for file in found if file.step <= step])
    return trial


def test_a_damaged_tensor_costs_its_step_only(run):
    register(Above)
    losses(run, [11, 11, 11])
    (event,) = run.storage.list("events/000000000001")
    data = bytearray(run.storage.read(event.key))
    data[12:40] = b"\xff" * 28
    run.storage.write(event.key, bytes(data))
    checkpoint, _ = check(run.storage, to_watch({"rules": ["Above"]}))
    record = checkpoint.rules["Above"]
    assert (record.violations, record.data_points, record.disabled) == (2, 2, False)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (lambda: object(), "attribute kept cannot be kept between two steps: object"),
        (lambda: [b"x"], "attribute kept cannot be kept between two steps: bytes"),
        (lambda: np.zeros(100_000), "the rule's state of 1066"),
    ],
)
def test_what_cannot_be_kept_is_an_error(run, value, why):
    class Keeps(Rule):
        def invoke_at_step(self, step):
            self.kept = value()
            return False

    register(Keeps)
    record = checked(losses(run, [1, 2]), "Keeps").rules["Keeps"]
    assert (record.status.value, record.disabled) == ("Error", True)
    assert why in record.details


def test_what_is_found_again_is_not_kept(run):
    class Finds(Rule):
        def invoke_at_step(self, step):
            self.tensor = self.base_trial.tensor("loss")
            self.log, self.count = self.logger, len
            return False

    register(Finds)
    record = checked(losses(run, [1, 2]), "Finds").rules["Finds"]
    assert (record.status.value, record.state) == ("NoIssuesFound", {})


def test_a_rule_that_ended_itself_is_asked_no_more(run):
    class Ends(Rule):
        def invoke_at_step(self, step):
            raise RuleEvaluationConditionMet("Ends", step, end_of_rule=True)

    register(Ends)
    record = checked(losses(run, [1, 2, 3]), "Ends").rules["Ends"]
    assert (record.violations, record.state) == (1, {"ended": True})


def test_other_trials(run, tmp_path):
    class Compares(Rule):
        def __init__(self, base_trial, other_trials):
            super().__init__(base_trial, other_trials=other_trials)
            assert other_trials is None or len(other_trials) == 1

        def set_required_tensors(self, step):
            for trial in self.trials:
                self.req_tensors.add("loss", steps=[step], trial=trial)

        def invoke_at_step(self, step):
            mine, theirs = (next(iter(self.req_tensors.get(t))).value(step) for t in self.trials)
            return mine > theirs

    register(Compares)
    losses(run, [1, 5, 1, 9])
    other = losses(type(run)(tmp_path / "other"), [2, 2, 2])

    def compared(name: str) -> Any:
        config = {"rule": "Compares", "parameters": {"other_trials": name}}
        return checked(run, config).rules["Compares"]

    for name in ("other", other.storage.url):
        record = compared(name)
        assert (record.violations, record.data_points) == (1, 3)  # it has no step 3
    record = compared("no-such-run")
    assert (record.violations, record.data_points) == (0, 0)
    assert record.status.value == "NotApplicable"

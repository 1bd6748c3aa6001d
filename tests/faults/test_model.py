"""The pipeline under any sequence of faults; ``make faults`` tries many more sequences."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tocsin.evaluation import Hint, JobEnded, check, replayed
from tocsin.model import Role, Verdict
from tocsin.rules import HEALTHY, Read, Reads, Rule, State, Step
from tocsin.tensors import (
    END_MARKER,
    Collection,
    RunWriter,
    collections,
    collections_key,
    index_key,
)
from tocsin.watch import to_watch

from tests.faults.model import JOB, TO_THE_END, Message, Model
from tests.faults.room import BAD, RUN, add_rule

SEQUENCES = int(os.environ.get("TOCSIN_FAULT_SEQUENCES", "500"))
WORKERS = ("worker_0", "worker_1", "worker_2")
SERVICES = ("s3", "dynamodb", "sqs", "events", "cloudwatch", "sagemaker", "sns", "webhook")
RECEIVERS = {"flaps": ("email", "webhook:ops"), "stays": ("stop", "email")}
TEXT: dict[str, Any] = {
    "rules": [
        {"name": "flaps", "for_steps": 1, "resolve": 1},
        {"name": "stays", "for_steps": 2, "severity": "critical"},
    ],
    "notify": {"summary": ["email"]},
}
for each in TEXT["rules"]:
    each |= {"rule": "VanishingGradient", "actions": [*RECEIVERS[each["name"]]]}
TEXT["rules"].append({"name": "own", "rule": "Own", "actions": []})
WATCHING = to_watch(TEXT)

PICK = st.integers(0, 9)
FATES = st.sampled_from(["comes", "comes", "twice", "late", "lost"])
CALLS = st.sampled_from([1, 2, 3, 5, 8, TO_THE_END, TO_THE_END])
BATCHES = st.sampled_from([1, 1, 2, 10])
SKEWS = st.sampled_from([0.0, 0.0, -180.0, 180.0])
REFUSING = ("s3", "events")
DAY = 86_400.0
MOST_AT_WORK = {"evaluate": 4, "act": 2}


@dataclass(frozen=True)
class Own(Rule):
    """A custom rule, which hangs at some steps: an invocation that dies in it switches it off."""

    hang: ClassVar[Callable[[int], None]]

    def reads(self) -> Reads:
        return Reads({"gradients": Read(roles=(Role.GRADIENT,))}, ticks=True)

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        type(self).hang(step.step)
        return {"last": step.step}, HEALTHY


class Pipeline(RuleBasedStateMachine):
    """A job of three workers is watched while everything goes wrong.

    Invocations are left at any call and go on in any order: up to four of ``evaluate``, with one
    message or a batch, and two of ``act``. They are cut off before or after any call. Any service
    is throttled, or refuses every call until that is allowed. Files of an older run are copied over
    those of the job. Notifications come twice, late, in another order, or never; leases expire. The
    clock of ``evaluate`` is minutes off, and that of the training. The job ends, goes on all the
    same, and starts again, and workers die. Somebody has it evaluated again from its start.

    At each moment: what is not finished is due, so nothing waits for a message that can be lost.

    In the end, when all messages that can be lost are lost:

    * the statuses are those of ``tocsin check`` over the bucket, unless a step was given up because
      its invocations were cut off again and again, or the custom rule was at work then;
    * each firing was decided once for each of its receivers, unless a later one took its place
      while the group waited; and was sent once for each invocation of ``act`` that was cut off,
      which may have been between SNS's answer and the record of it, and once more;
    * whoever heard that a rule fires knows how it ended;
    * a stop that was decided is done;
    * no task is left.

    The clocks of ``act`` are in order: Lambda's are, and a claim is as good as they are. The starts
    of a job have one clock: where no file shows which of two is later, their own times decide.
    """

    def __init__(self) -> None:
        super().__init__()
        self.model = Model(WATCHING)
        self.step, self.starts = 0, 1
        self.previous: dict[str, int | None] = dict.fromkeys(WORKERS)
        self.alive = list(WORKERS)
        self.resumed_from: int | None = None
        self.skew = self.started = 0.0
        self.behind: list[tuple[str, dict[str, Any]]] = []
        self.went_back = self.was_copied_over = False
        self.hangs: set[int] = set()
        self.replaced: set[str] = set()  # firings that somebody has heard of, or nobody
        Own.hang = self._hang

    # The job.

    @initialize(skew=SKEWS)
    def begin_job(self, skew: float) -> None:
        self.skew, self.started = skew, self.model.now + skew
        self.first_started = self.started
        collection = Collection("gradients", include_regex=("^gradient/",))
        for worker in WORKERS:
            writer = RunWriter(self.model.files, worker)
            writer.write_collections([collection], len(WORKERS))

    @rule(bad=st.booleans(), fates=st.tuples(FATES, FATES, FATES), slow=st.booleans())
    def save(self, bad: bool, fates: tuple[str, ...], slow: bool) -> None:
        """Each worker saves the next step; the last one perhaps a while after the others."""
        self.catch_up()
        self.model.pass_time(1.0)
        for worker, fate in zip(self.alive, fates, strict=False):
            document = self._document(worker, bad)
            key, self.previous[worker] = index_key(self.step, worker), self.step
            if slow and worker is self.alive[-1] and len(self.alive) > 1:
                self.behind.append((key, document))
            else:
                self._write(key, document, fate)
        self.step += 1

    @rule(fate=FATES)
    def hear_of_collections(self, fate: str) -> None:
        """S3 says that the workers' collections files are there, when it comes to it."""
        for worker in WORKERS:
            self._notify((collections_key(worker),), fate)

    @precondition(lambda self: self.step)
    @rule(ago=st.integers(0, 2))
    def let_the_custom_rule_hang(self, ago: int) -> None:
        """It hangs at one of the last steps, and as time passes after it."""
        self.hangs.add(max(self.step - ago, 0))

    def _hang(self, step: int) -> None:
        if step in self.hangs:
            for invocation in self.model.at_work:
                invocation.hang()

    def catch_up(self) -> None:
        for key, document in self.behind:
            self._write(key, document, "comes")
        self.behind.clear()

    @precondition(lambda self: len(self.alive) > 1 and None not in self.previous.values())
    @rule(pick=PICK)
    def die(self, pick: int) -> None:
        self.catch_up()
        self.alive.pop(pick % len(self.alive))

    @precondition(lambda self: self.step)
    @rule(resumes=st.booleans(), back=st.integers(0, 3))
    def start_again(self, resumes: bool, back: int) -> None:
        """The job starts again, from its beginning or from a model checkpoint."""
        self.catch_up()
        self.model.pass_time(30.0)
        self.starts += 1
        self.alive, self.previous = list(WORKERS), dict.fromkeys(WORKERS)
        self.started = self.model.now + self.skew
        self.went_back = self.went_back or (resumes and back > 0)
        self.step = max(self.step - back, 1) if resumes else 0
        self.resumed_from = self.step - 1 if resumes else None

    @precondition(lambda self: self.step > 1)
    @rule(copied=st.integers(1, 4), fate=FATES)
    def copy_older(self, copied: int, fate: str) -> None:
        """The first steps of an older run are copied over the job's, but not over its last."""
        self.catch_up()
        self.was_copied_over = True
        for step in range(min(copied, self.step - 1)):
            for worker in WORKERS:
                previous = step - 1 if step else None
                document = self._document(worker, bad=True)
                document["meta"] |= {"mode_step": step, "run_id": "older", "prev_step": previous}
                document["meta"] |= {"resumed_from": None, "started": self.first_started - DAY}
                self._write(index_key(step, worker), document, fate)

    @precondition(lambda self: self.step)
    @rule(by_hook=st.booleans(), fate=FATES)
    def end(self, by_hook: bool, fate: str) -> None:
        self.catch_up()
        if by_hook:
            RunWriter(self.model.files, run_id=self._run_id).close()
            self._notify((), fate)
        else:
            self.model.job_ended_at = self.model.now
            self.model.send("evaluate", JobEnded(JOB, "arn"), durable=True)

    @rule()
    def replay(self) -> None:
        """``tocsin replay --act`` has the run evaluated again from its start."""
        stored = self.model.checkpoints.load(RUN)
        if stored.version is not None:
            again = replayed(stored.checkpoint, "asked for", self.model.now)
            self.model.checkpoints.save(again, stored.version)
            self.replaced |= {change.dedup_id for change in stored.checkpoint.unpublished}
            self.model.send("evaluate", Hint(RUN), durable=True)

    @property
    def _run_id(self) -> str:
        return f"start-{self.starts}"

    def _document(self, worker: str, bad: bool) -> dict[str, Any]:
        mean = BAD if bad else 1e-2
        summary = {"size": 4, "nan": 0, "posinf": 0, "neginf": 0, "abs_mean": mean}
        name = "gradient/fc"
        tensor = {"tensorname": name, "originalname": name, "shape": [4], "summary": summary}
        meta = {"mode": "TRAIN", "mode_step": self.step, "tocsin": 1, "run_id": self._run_id}
        meta |= {"prev_step": self.previous[worker], "resumed_from": self.resumed_from}
        meta |= {"started": self.started}
        return {"meta": meta, "tensor_payload": [], "shape_payload": [tensor]}

    def _write(self, key: str, document: dict[str, Any], fate: str) -> None:
        self.model.files.write(key, json.dumps(document).encode())
        # Nothing is due for a run that has ended: S3 must say at least once that it goes on.
        self._notify((key,), fate, durable=END_MARKER in self.model.files.objects)

    def _notify(self, keys: tuple[str, ...], fate: str, *, durable: bool = False) -> None:
        if fate != "lost" or durable:
            delay = 90.0 if fate == "late" else 0.0
            self.model.send("evaluate", Hint(RUN, keys), delay, durable=durable)
        if fate == "twice":
            self.model.send("evaluate", Hint(RUN, keys))

    # The invocations.

    @rule(pick=PICK, skew=SKEWS, calls=CALLS, batch=BATCHES)
    def begin_evaluate(self, pick: int, skew: float, calls: int, batch: int = 1) -> None:
        self._begin("evaluate", pick, skew, calls, batch)

    @rule(pick=PICK, calls=CALLS)
    def begin_act(self, pick: int, calls: int) -> None:
        self._begin("act", pick, 0.0, calls, 1)

    def _begin(self, queue: str, pick: int, skew: float, calls: int, batch: int) -> None:
        waiting = self.model.waiting(queue)
        busy = sum(each.queue == queue for each in self.model.at_work)
        if waiting and busy < MOST_AT_WORK[queue]:
            first = pick % len(waiting)
            messages = [*waiting[first:], *waiting[:first]][:batch]
            self.model.resume(self.model.begin(*messages, skew=skew), calls)

    @precondition(lambda self: self.model.at_work)
    @rule(pick=PICK, calls=CALLS)
    def go_on(self, pick: int, calls: int) -> None:
        self.model.resume(self.model.at_work[pick % len(self.model.at_work)], calls)

    @precondition(lambda self: self.model.at_work)
    @rule(pick=PICK)
    def crash(self, pick: int) -> None:
        self.model.crash(self.model.at_work[pick % len(self.model.at_work)])

    @rule(service=st.sampled_from(SERVICES), times=st.integers(1, 3))
    def throttle(self, service: str, times: int) -> None:
        self.model.throttled[service] = times

    @rule(service=st.sampled_from(REFUSING))
    def refuse(self, service: str) -> None:
        """A permission is missing, or a key is disabled."""
        self.model.refused.add(service)

    @precondition(lambda self: self.model.refused)
    @rule()
    def allow(self) -> None:
        self.model.refused.clear()

    # Messages and time.

    @precondition(lambda self: self.model.messages)
    @rule(pick=PICK)
    def deliver_twice(self, pick: int) -> None:
        found = self.model.messages[pick % len(self.model.messages)]
        self.model.messages.append(Message(found.queue, found.body, found.due, found.durable))

    @precondition(lambda self: self.model.messages)
    @rule(pick=PICK)
    def lose(self, pick: int) -> None:
        found = self.model.messages[pick % len(self.model.messages)]
        if not found.durable:
            self.model.messages.remove(found)

    @rule(seconds=st.sampled_from([2.0, 12.0, 62.0, 320.0]))
    def wait(self, seconds: float) -> None:
        self.catch_up()
        self.model.pass_time(seconds)
        self.model.patrol()

    # What must be so.

    @invariant()
    def what_is_not_finished_is_due(self) -> None:
        item = self.model.coordination.items.get(RUN)
        if item is not None and (item.owner is not None or item.attempts):
            assert item.due_at is not None
        group = self.model.group().group
        if group.tasks:
            assert self.model.alerts.due[RUN] is not None

    def teardown(self) -> None:
        self._come_to_rest()
        self._judge()

    def _come_to_rest(self) -> None:
        """No more faults, but for the loss of every message that can be lost."""
        model = self.model
        for invocation in [*model.at_work]:
            model.crash(invocation)
        model.throttled.clear()
        model.refused.clear()
        if not self.step and self.starts == 1:
            return
        self.end(by_hook=True, fate="lost")
        model.messages = [each for each in model.messages if each.durable]
        rest = model.now + 36 * 3600  # a run that was given up is looked at after a day
        for _ in range(600):
            if (at := model.next_time()) is None or at >= rest:
                return
            model.pass_time(max(30.0, at - model.now) + 1.0)
            model.patrol()
            for queue in ("evaluate", "act"):
                for message in model.waiting(queue):
                    model.resume(model.begin(message))
        raise AssertionError(f"it does not come to rest: {model.messages}, {model.next_time()}")

    def _judge(self) -> None:
        model = self.model
        checkpoint = model.checkpoint()
        if checkpoint.last_step is None and not (model.messages and self.step):
            return  # nobody ever heard of the run, or it has no step
        offline, _ = check(model.files, WATCHING, now=lambda: model.now)
        expected = {name: record.status for name, record in offline.rules.items()}
        found = {name: record.status for name, record in checkpoint.rules.items()}
        if "switched off" in checkpoint.rules["own"].details:
            del found["own"], expected["own"]
        # A resumed rule is judged from there on. Of what was copied over, only Lambda has seen all.
        if self.went_back or self.was_copied_over:
            del found["stays"], expected["stays"]
        assert checkpoint.ended == offline.ended
        assert found == expected or model.coordination.given_up
        assert checkpoint.unpublished == ()
        self._judge_alerts()

    def _judge_alerts(self) -> None:
        alerts, group = self.model.alerts, self.model.group().group
        assert group.tasks == ()
        planned = Counter(
            (task.action, task.dedup_ids[of])
            for task in alerts.decided.values()
            for of in task.firing
            if task.reason != "repeat_interval"
        )
        assert set(planned.values()) <= {1}
        last: dict[str, Any] = {}
        fired_of: dict[str, list[str]] = {"flaps": [], "stays": []}
        for change in self.model.checkpoints.fired.values():
            name = change.rule_configuration_name
            fired_of[name].append(change.dedup_id)
            if change.dedup_id in self.replaced:
                continue
            if name not in last or last[name].sequence < change.sequence:
                last[name] = change
        for name, change in last.items():
            for action in RECEIVERS[name]:
                fired = [each for each in fired_of[name] if planned[action, each]]
                assert fired, (name, action)
                sent = group.sent[action]
                assert sent.last_fired[name] == change.dedup_id
                fires = self.model.checkpoint().rules[name].status == "IssuesFound"
                assert action == "stop" or (name in sent.firing) == fires
                assert action != "stop" or planned[action, change.dedup_id] == 1
        if any(task.action == "stop" for task in alerts.decided.values()):
            assert alerts.stopped
        self._judge_effects()

    def _judge_effects(self) -> None:
        alerts, log = self.model.alerts, self.model.group().group.log
        done = {entry.task: entry.action for entry in log if entry.outcome == "done"}
        tasks = Counter(action.partition(":")[0] for action in done.values())
        repeats = sum(count - 1 for count in alerts.posts.values())
        repeats += len(alerts.published) - tasks["email"]
        assert 0 <= repeats <= self.model.cut_off["act"]
        assert len(alerts.posts) == tasks["webhook"]


def test_any_sequence_of_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collections, "_MOST_READ", 2)  # of the files of three workers
    add_rule(monkeypatch, Own)
    run_state_machine_as_test(
        Pipeline,
        settings=settings(
            max_examples=SEQUENCES,
            stateful_step_count=25,
            deadline=None,
            derandomize=SEQUENCES <= 500,  # `make faults` tries others each time
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_two_restarts_while_an_evaluation_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    add_rule(monkeypatch, Own)
    pipeline = Pipeline()
    on_time = ("comes", "comes", "comes")
    pipeline.begin_job(skew=0.0)
    pipeline.save(bad=False, fates=("comes", "comes", "late"), slow=False)
    pipeline.save(bad=True, fates=on_time, slow=False)
    pipeline.start_again(back=0, resumes=False)
    pipeline.throttle(service="events", times=2)
    pipeline.begin_evaluate(calls=8, pick=0, skew=0.0)
    pipeline.save(bad=False, fates=on_time, slow=False)
    pipeline.go_on(calls=8, pick=0)
    pipeline.start_again(back=0, resumes=False)
    pipeline.begin_evaluate(calls=3, pick=0, skew=0.0)
    pipeline.go_on(calls=1, pick=0)
    pipeline.save(bad=True, fates=on_time, slow=True)
    pipeline.begin_evaluate(calls=1000000, pick=0, skew=0.0)
    pipeline.begin_evaluate(calls=1, pick=4, skew=0.0)
    pipeline.teardown()


def test_a_hook_ends_a_later_start_before_sagemaker_ends_the_earlier_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    add_rule(monkeypatch, Own)
    pipeline = Pipeline()
    on_time = ("comes", "comes", "comes")
    pipeline.begin_job(skew=0.0)
    pipeline.save(bad=False, fates=on_time, slow=False)
    pipeline.end(by_hook=False, fate="comes")
    pipeline.start_again(back=0, resumes=False)
    pipeline.begin_evaluate(calls=TO_THE_END, pick=0, skew=0.0)
    pipeline.save(bad=False, fates=on_time, slow=False)
    pipeline.teardown()


def test_the_marker_of_two_starts_ends_a_third(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last one saved nothing, and SageMaker says late that the first one ended."""
    add_rule(monkeypatch, Own)
    pipeline = Pipeline()
    on_time = ("comes", "comes", "comes")
    pipeline.begin_job(skew=0.0)
    pipeline.save(bad=False, fates=on_time, slow=False)
    pipeline.begin_evaluate(calls=TO_THE_END, pick=0, skew=0.0)
    pipeline.end(by_hook=False, fate="comes")
    pipeline.start_again(back=0, resumes=False)
    pipeline.save(bad=False, fates=on_time, slow=False)
    pipeline.start_again(back=0, resumes=False)
    pipeline.teardown()


def test_a_start_that_overwrites_a_step_judged_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """A firing was committed before the custom rule, and could not be published."""
    add_rule(monkeypatch, Own)
    pipeline = Pipeline()
    on_time = ("comes", "comes", "comes")
    pipeline.begin_job(skew=0.0)
    pipeline.save(bad=False, fates=on_time, slow=False)
    pipeline.refuse(service="events")
    pipeline.save(bad=True, fates=on_time, slow=False)
    pipeline.start_again(back=1, resumes=True)
    pipeline.begin_evaluate(calls=TO_THE_END, pick=0, skew=0.0)
    pipeline.save(bad=False, fates=on_time, slow=False)
    pipeline.teardown()


def test_a_copy_of_an_older_run_hides_no_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The job resumes and overwrites its last step, and only the end of the run tells of it."""
    add_rule(monkeypatch, Own)
    pipeline = Pipeline()
    on_time = ("comes", "comes", "comes")
    pipeline.begin_job(skew=0.0)
    pipeline.save(bad=False, fates=on_time, slow=False)
    pipeline.save(bad=True, fates=on_time, slow=False)
    pipeline.begin_evaluate(batch=1, calls=TO_THE_END, pick=0, skew=0.0)
    pipeline.begin_act(calls=1, pick=0)
    pipeline.start_again(back=1, resumes=True)
    pipeline.save(bad=False, fates=on_time, slow=False)
    pipeline.copy_older(copied=1, fate="comes")
    pipeline.teardown()


def test_a_replay_while_its_firing_is_on_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    add_rule(monkeypatch, Own)
    pipeline = Pipeline()
    on_time = ("comes", "comes", "comes")
    pipeline.begin_job(skew=0.0)
    pipeline.save(bad=True, fates=on_time, slow=False)
    pipeline.let_the_custom_rule_hang(ago=1)
    pipeline.save(bad=False, fates=on_time, slow=False)
    pipeline.start_again(back=0, resumes=False)
    pipeline.begin_evaluate(batch=1, calls=TO_THE_END, pick=0, skew=0.0)
    pipeline.begin_act(calls=5, pick=0)
    pipeline.replay()
    pipeline.teardown()

"""Chaos on the embedded AWS: ``python -m tests.faults.chaos [--seeds 50]``.

Each seed is a job of two workers in a bucket of its own. Its notifications are dropped, doubled and
shuffled; ``evaluate`` and ``act`` work with their real adapters, and are killed before or after any
call of AWS. The time passes by a clock of the test. In the end only the patrol's messages come.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
from tocsin.alerts import AlertPorts, Deliver, Flush, TryAgain, react
from tocsin.aws.clients import AWS_ERRORS
from tocsin.aws.connect.act import connect_act
from tocsin.aws.connect.evaluate import connect_evaluate
from tocsin.aws.settings import ActSettings, EvaluateSettings
from tocsin.evaluation import Coordination, EvaluationPorts, Hint, Lease, check, evaluate
from tocsin.evaluation.reconciliation import SKIP_ATTEMPTS
from tocsin.events import RUN_NEWS, RunNews
from tocsin.model import Mode, TensorSummary
from tocsin.tensors import STOP, Captured, Collection, NotFound, RunWriter, index_key, open_storage
from tocsin.watch import to_watch

from local import LocalAws, local_aws
from local.events import Events, listen

WORKERS = ("worker_0", "worker_1")
WATCH = to_watch(
    {
        "rules": [
            {
                "rule": "VanishingGradient",
                "for_steps": 2,
                "severity": "critical",
                "actions": ["stop", "email"],
            }
        ]
    }
)


class Killed(BaseException):
    """The process is gone."""


@dataclass
class Chaos:
    """One seed.

    kills: how often an invocation was killed.
    given_up: whether one gave a step up, after all its attempts: what it found there
        is missing then, as it should be.
    """

    aws: LocalAws
    random: random.Random
    now: float = field(default_factory=time.time)
    kills: int = 0
    given_up: bool = False
    _left: int | None = None

    def client(self, service: str) -> Any:
        client = self.aws.client(service)
        for moment in ("before-call", "after-call"):
            client.meta.events.register(f"{moment}.*", self._called)
        return client

    def _called(self, **_: Any) -> None:
        if self._left is None:
            return
        self._left -= 1
        if self._left < 0:
            raise Killed

    def invoke(self, do: Callable[[], object], *, calm: bool = False) -> bool:
        """One invocation, which may be killed; whether its message is done with."""
        self._left = None if calm or self.random.random() < 0.5 else self.random.randrange(24)
        try:
            do()
        except Killed:
            self.kills += 1
            self.now += 75.0  # its lease or claim is over
            return False
        except (*AWS_ERRORS, TryAgain):
            return False
        finally:
            self._left = None
        return True


@dataclass
class _Attempts:
    """The coordination, which records whether a step is skipped."""

    real: Coordination
    chaos: Chaos

    def take(self, *args: Any) -> Lease | None:
        lease = self.real.take(*args)
        self.chaos.given_up |= lease is not None and lease.attempts > SKIP_ATTEMPTS
        return lease

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


def play(aws: LocalAws, bucket: str, queue: str, events: Events, seed: int) -> list[str]:
    """Play one seed. Return its errors, and print a line of figures."""
    chaos = Chaos(aws, random.Random(seed))
    run = f"s3://{bucket}/jobs/chaos-{seed}-{uuid.uuid4().hex[:6]}"
    ports, alerts = _evaluation(chaos, queue), _alerts(chaos, queue)
    storage = open_storage(run, client=aws.client("s3"))
    news: list[RunNews] = []

    def look(hint: Hint, *, calm: bool = False) -> bool:
        owner, ends = uuid.uuid4().hex, chaos.now + 60
        return chaos.invoke(lambda: evaluate(hint, ports, owner=owner, ends=ends), calm=calm)

    def act(message: RunNews | Flush, *, calm: bool = False) -> bool:
        def work() -> None:
            for each in (message, Deliver(run)):
                react(each, alerts, ends=chaos.now + 30)

        return chaos.invoke(work, calm=calm)

    notifications = list(_write(storage, chaos.random))
    chaos.now = max(chaos.now, time.time()) + 10
    for key in _disturbed(notifications, chaos.random):
        look(Hint(run, (key,)))
    RunWriter(storage, run_id="r").close()
    chaos.now = max(chaos.now, time.time()) + 10
    # After several kills a look evaluates one step, and then asks for the next look.
    for calm in (False, False, *[True] * 20):
        if calm and ports.checkpoints.load(run).checkpoint.ended is not None:
            break
        chaos.now += 660.0
        look(Hint(run, tick=chaos.now), calm=calm)
        news += _news(events, run)
        for message in [*news, Flush(run)]:
            while not act(message, calm=calm):
                pass
        news.clear()
    news += _news(events, run)
    for message in [*news, *[Flush(run)] * 4]:
        chaos.now += 660.0
        act(message, calm=True)
    return list(_judged(chaos, ports, alerts, run))


def _write(storage: Any, chance: random.Random) -> Iterator[str]:
    """A job of some steps; the keys of its index files."""
    writers = {worker: RunWriter(storage, worker, run_id="r") for worker in WORKERS}
    for writer in writers.values():
        writer.write_collections([Collection("gradients", include_regex=("^g/",))], len(WORKERS))
    for step in range(chance.randrange(4, 9)):
        mean = chance.choice([1e-2, 1e-12, 1e-12])
        summary = TensorSummary(size=4, nan=0, posinf=0, neginf=0, abs_mean=mean)
        for worker, writer in writers.items():
            tensor = Captured("g/fc", shape=(4,), dtype="float32", summary=summary)
            writer.write(step, Mode.TRAIN, step, [tensor])
            yield index_key(step, worker)


def _disturbed(keys: list[str], chance: random.Random) -> list[str]:
    copies = [key for key in keys for _ in range(chance.choice([0, 1, 1, 2]))]
    chance.shuffle(copies)
    return copies


def _news(events: Events, run: str) -> Iterator[RunNews]:
    """Yield the private events of the run from the bus; EventBridge may need a moment."""
    for event in events.receive(wait=2):
        if event["detail-type"] == RUN_NEWS and event["detail"]["Run"] == run:
            yield msgspec.convert(event["detail"], RunNews)


def _judged(chaos: Chaos, ports: EvaluationPorts, alerts: AlertPorts, run: str) -> Iterator[str]:
    checkpoint = ports.checkpoints.load(run).checkpoint
    offline, _ = check(ports.storage(run), WATCH, now=lambda: chaos.now)
    found, expected = checkpoint.statuses[0], offline.statuses[0]
    if found.rule_evaluation_status != expected.rule_evaluation_status:
        if not chaos.given_up:
            yield f"{found} is not {expected}"
        expected = found
    group = alerts.groups.load(run).group
    job = run.rpartition("/")[2]
    fired = expected.rule_evaluation_status == "IssuesFound"
    mails = Counter(mail.attributes.get("job", "") for mail in chaos.aws.mailbox.receive(wait=1))
    if not fired <= mails[job] <= fired + chaos.kills:
        yield f"{mails[job]} e-mails, fired {fired}, {chaos.kills} kills"
    if group.tasks:
        yield f"left to do: {group.tasks}"
    try:
        stopped = ports.storage(run).head(STOP).size > 0
    except NotFound:
        stopped = False
    if stopped != fired:
        yield f"fired {fired}, stopped {stopped}"
    status = found.rule_evaluation_status
    print(f"{job}: {status}, {chaos.kills} kills, {mails[job]} e-mails, stopped {stopped}")


def _evaluation(chaos: Chaos, queue: str) -> EvaluationPorts:
    outputs = chaos.aws.outputs
    settings = EvaluateSettings(
        table=outputs["StateTableName"],
        state_bucket=outputs["StateBucketName"],
        evaluate_queue_url=queue,
        bus=outputs["EventBusName"],
    )
    ports = connect_evaluate(settings, WATCH, chaos.client, lambda: chaos.now)
    return replace(ports, coordination=_Attempts(ports.coordination, chaos))


def _alerts(chaos: Chaos, queue: str) -> AlertPorts:
    outputs = chaos.aws.outputs
    settings = ActSettings(
        table=outputs["StateTableName"],
        bus=outputs["EventBusName"],
        topic_arn=outputs["AlertTopicArn"],
        state_bucket=outputs["StateBucketName"],
        act_queue_url=queue,
        stop_guard="1000/10m",
    )
    return connect_act(settings, chaos.client, lambda: chaos.now)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seeds", type=int, default=50)
    seeds, wrong = parser.parse_args().seeds, 0
    with local_aws({"emails": ["ops@example.com"], "stopGuard": "50/10m"}) as aws:
        name = f"chaos-{uuid.uuid4().hex[:8]}"
        aws.client("s3").create_bucket(Bucket=name)
        queue = aws.client("sqs").create_queue(QueueName=name)["QueueUrl"]
        events = listen(aws.client, aws.outputs["EventBusName"], f"{name}-events")
        for seed in range(seeds):
            for what in play(aws, name, queue, events, seed):
                wrong += 1
                print(f"seed {seed}: {what}", file=sys.stderr)
    print(f"{seeds} seeds, {wrong} wrong")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()

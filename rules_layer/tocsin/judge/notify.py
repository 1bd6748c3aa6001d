"""Messages without AWS: sends findings to the targets of ``--notify``.

Inhibition, silences, grouping and resolved messages are those of ``act``, from the same code.
"""

from __future__ import annotations

import dataclasses
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from msgspec.structs import replace

from tocsin.actions import NO_EFFECTS, Lookups
from tocsin.alerts import (
    AlertGroup,
    AlertPorts,
    CommitConflict,
    Deliver,
    Flush,
    Hold,
    Incoming,
    Known,
    StoredGroup,
    react,
)
from tocsin.events import ActionTaken, RunEvent, RunNews, RunSummary, StatusChange
from tocsin.judge.targets import Target
from tocsin.watch import Silence

_INVOCATION = 60.0  # seconds for one message of act
_WAITING = frozenset({Hold.GROUP_WAIT, Hold.GROUP_INTERVAL})
_END: Final = None


@dataclass
class _Memory:
    """The state that ``act`` keeps of a run, and the messages under way."""

    clock: Callable[[], float]
    group: StoredGroup
    alerts: dict[str, StatusChange] = field(default_factory=dict)
    sequence: int = 0
    due: list[tuple[float, Incoming]] = field(default_factory=list)

    def receive(self, news: RunNews) -> None:
        self.alerts.update({each.rule_configuration_name: each for each in news.changes})
        self.sequence = max(
            self.sequence,
            *(change.sequence for change in news.changes),
            *(summary.sequence for summary in news.summaries),
        )

    def next_due(self) -> Incoming | None:
        """Removes and returns a message whose time has come."""
        found = next((each for each in self.due if each[0] <= self.clock()), None)
        if found is None:
            return None
        self.due.remove(found)
        return found[1]

    def load(self, run: str) -> StoredGroup:
        return self.group

    def save(self, group: AlertGroup, version: int | None) -> int:
        if version != self.group.version:
            raise CommitConflict(group.run)
        self.group = StoredGroup(group, (version or 0) + 1)
        return (version or 0) + 1

    def active(self, now: float) -> Sequence[Silence]:
        return ()  # those of the watch file come with the events

    def known(self, run: str) -> Known:
        return Known(tuple(self.alerts.values()), frozenset(self.alerts), self.sequence)

    def flush(self, run: str, delay: float) -> None:
        self.due.append((self.clock() + delay, Flush(run)))

    def deliver(self, run: str, waits: int = 0, delay: float = 0.0) -> None:
        self.due.append((self.clock() + delay, Deliver(run, waits)))

    def take(self, owner: str, until: float) -> bool:
        return True

    def give_back(self, owner: str) -> None:
        """Return at once: there are no other runs to wait for."""


@dataclass
class Notifier:
    """Sends to each target, in a thread. ``close`` sends waiting alerts as one message.

    say: gets a line about a message that could not be sent.
    """

    run: str
    targets: Sequence[Target]
    now: Callable[[], float]
    say: Callable[[str], object]

    def __post_init__(self) -> None:
        self._targets = {f"{each.name}-{at}": each for at, each in enumerate(self.targets, 1)}
        self._memory = _Memory(self._clock, StoredGroup(AlertGroup(self.run), None))
        self._ahead = 0.0  # seconds by which a message that waits is sent early, at the end
        self._inbox: queue.Queue[RunNews | None] = queue.Queue()
        self._thread = threading.Thread(target=self._work, name="tocsin-notify", daemon=True)
        self._thread.start()

    def publish(self, events: Sequence[RunEvent]) -> None:
        """Take the events of one look."""
        changes = tuple(self._to_all(each) for each in events if isinstance(each, StatusChange))
        summaries = tuple(self._ended(each) for each in events if isinstance(each, RunSummary))
        if changes or summaries:
            first: StatusChange | RunSummary = changes[0] if changes else summaries[0]
            news = RunNews(
                first.training_job_name, self.run, first.run_id, first.dedup_id, changes, summaries
            )
            self._inbox.put(news)

    def close(self, timeout: float = 15.0) -> None:
        """Send waiting messages, and end."""
        self._inbox.put(_END)
        self._thread.join(timeout)

    def _to_all(self, change: StatusChange) -> StatusChange:
        """A rule with any action is sent to every target."""
        actions = tuple(f"webhook:{name}" for name in self._targets) if change.actions else ()
        return replace(change, actions=actions, debug_rule_evaluation_statuses=())

    def _ended(self, summary: RunSummary) -> RunSummary:
        wanted = (name for name, each in self._targets.items() if each.takes_summary)
        asked = summary.summary
        return replace(summary, summary=tuple(f"webhook:{it}" for it in wanted) if asked else ())

    def _work(self) -> None:
        while True:
            at = min((at for at, _ in self._memory.due), default=None)
            try:
                wait = None if at is None else max(0.0, at - self._clock())
                news = self._inbox.get(timeout=wait)
            except queue.Empty:
                self._react_to_due()
                continue
            if news is _END:
                self._send_the_rest()
                return
            self._memory.receive(news)
            self._react(news)
            self._react_to_due()

    def _send_the_rest(self) -> None:
        """Send alerts at once that wait for others, because no more will come."""
        group = self._memory.group.group
        if group.wake_at is not None and _WAITING & {*group.held.values()}:
            self._ahead += max(0.0, group.wake_at - self._clock())
            self._react(Flush(self.run))
        self._react_to_due()

    def _react_to_due(self) -> None:
        while (message := self._memory.next_due()) is not None:
            self._react(message)

    def _react(self, message: Incoming) -> None:
        try:
            react(message, self._ports(), ends=self._clock() + _INVOCATION)
        except Exception as error:  # noqa: BLE001 - the run is judged on
            self.say(f"not notified: {type(error).__name__}: {error}")

    def _clock(self) -> float:
        return self.now() + self._ahead

    def _ports(self) -> AlertPorts:
        memory = self._memory
        return AlertPorts(
            groups=memory,
            silences=memory,
            checkpoints=memory,
            timer=memory,
            turns=memory,
            lookups=Lookups(
                describe_job=lambda job, run: None,
                job_tags=lambda arn: {},
                refuses=lambda kind, recipient: None,
                recent=lambda alert: (),
                now=lambda: datetime.fromtimestamp(self._clock(), UTC),
            ),
            effects=dataclasses.replace(NO_EFFECTS, post=self._post),
            put_events=self._report,
            now=self._clock,
        )

    def _post(self, name: str, event: Mapping[str, Any], key: str) -> None:
        self._targets[name].post(event, key, self._clock())

    def _report(self, taken: Sequence[ActionTaken]) -> None:
        for each in taken[:1]:  # a message about several rules has an event for each
            if each.outcome not in ("done", "dry_run"):
                self.say(f"not notified: {each.target}: {each.detail}")

"""The reports of runs in the state bucket: one for each state of a run, and the links to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from botocore.exceptions import ClientError

from tocsin.actions import LINK_HOURS, ReportLinks
from tocsin.aws.clients import AWS_ERRORS, error_code
from tocsin.aws.s3 import LOST, MISSING, run_part
from tocsin.aws.settings import REPORTS
from tocsin.evaluation import Checkpoint, CheckpointStore, TraceStore
from tocsin.model import RuleStatus
from tocsin.report import Alert, Page, html_of, json_of, stored_machine, stored_page
from tocsin.tensors import Storage

PAUSE = 5.0  # seconds from one page of a run to the next, which shows all that came in between
SHARE = 0.1  # of an invocation's time that the pages of one run may take


def pause_after(took: float) -> float:
    """Return the seconds from a page that ``took`` so many seconds to the next page of its run."""
    return max(PAUSE, took / SHARE)


@dataclass(frozen=True)
class Shown:
    """The state that a run's page shows, the page's version, when it was written, in seconds since
    the epoch, and how many seconds that took. Without a page the version is None.
    """

    state: str = ""
    version: str | None = None
    written: float = 0.0
    took: float = 0.0


@dataclass(frozen=True)
class Later:
    """Asks for a run's page after a while, once, however often it is asked to.

    asked: by run, the time for which a page has been asked for.
    """

    send: Callable[[str, float], None]
    asked: dict[str, float] = field(default_factory=dict)

    def ask(self, run: str, now: float, at: float) -> None:
        for other in [each for each, until in self.asked.items() if until <= now]:
            del self.asked[other]
        if run not in self.asked:
            self.send(run, at - now)
            self.asked[run] = at


@dataclass(frozen=True)
class S3Reports:
    """A page and its data for each run, under fixed keys. The page's metadata says its state."""

    client: Any
    bucket: str

    def shown(self, run: str) -> Shown:
        """Return the state that the run's page shows."""
        try:
            found = self.client.head_object(Bucket=self.bucket, Key=report_key(run))
        except ClientError as error:
            if error_code(error) in MISSING:
                return Shown()
            raise
        state, took = (found["Metadata"].get(name, "") for name in ("state", "took"))
        return Shown(state, found["ETag"], found["LastModified"].timestamp(), float(took or 0.0))

    def save(
        self, run: str, page: Page, state: str, version: str | None, took: float = 0.0
    ) -> bool:
        """Write the page, which ``took`` so many seconds, over ``version``, then its data. False if
        that was replaced since.
        """
        condition = {"IfNoneMatch": "*"} if version is None else {"IfMatch": version}
        try:
            self.client.put_object(
                Bucket=self.bucket,
                Key=report_key(run),
                Body=html_of(page).encode(),
                ContentType="text/html; charset=utf-8",
                CacheControl="no-cache",
                Metadata={"state": state, "took": f"{took:.1f}"},
                **condition,
            )
        except ClientError as error:
            if error_code(error) in (*LOST, *MISSING):
                return False
            raise
        self.client.put_object(
            Bucket=self.bucket,
            Key=report_key(run, "json"),
            Body=json_of(page),
            ContentType="application/json",
        )
        return True

    def links(self, run: str) -> ReportLinks:
        """Return the links to the run's page, whether it has been written yet or not. Calls
        nothing."""
        key = report_key(run)
        target = {"Bucket": self.bucket, "Key": key}
        try:
            page = self.client.generate_presigned_url(
                "get_object", Params=target, ExpiresIn=LINK_HOURS * 3600
            )
        except AWS_ERRORS:  # no link holds a message back
            page = ""
        return ReportLinks(page, console_link(self.bucket, key, self.client.meta.region_name))


def make_report(
    run: str,
    reports: S3Reports,
    checkpoints: CheckpointStore,
    traces: TraceStore,
    storage: Callable[[str], Storage],
    actions: Callable[[str], Sequence[Alert]],
    now: Callable[[], float],
    later: Later,
) -> bool:
    """Write the run's report, unless there is one of its present state. Returns whether it wrote.

    A run without a checkpoint has none: a message can name any run. ``actions`` are those that were
    taken for the run until now. Each action of a run asks for a page: soon after one, the next is
    written ``later``, and the later the longer the last one took.
    """
    while True:
        began, shown = now(), reports.shown(run)
        if shown.written <= began < (due := shown.written + pause_after(shown.took)):
            later.ask(run, began, due)
            return False
        stored = checkpoints.load(run)
        taken = actions(run)
        state = _state(stored.checkpoint, taken)
        if stored.version is None or stored.unreadable or shown.state == state:
            return False
        made = datetime.fromtimestamp(began, UTC)
        machine = stored_machine(run, lambda url: checkpoints.load(url).checkpoint, storage)
        page = stored_page(stored.checkpoint, traces, storage(run), made, taken, machine)
        if reports.save(run, page, state, shown.version, now() - began):
            return True


def has_report(checkpoint: Checkpoint) -> bool:
    """Return whether a run has reached a point at which its report is written."""
    fired = (RuleStatus.ISSUES_FOUND is each.status for each in checkpoint.rules.values())
    ever = (each.fired_at is not None for each in checkpoint.rules.values())
    return checkpoint.ended is not None or any(fired) or any(ever)


def report_key(run: str, kind: str = "html") -> str:
    """Return the key of a run's report."""
    return f"{REPORTS}{run_part(run)}/report.{kind}"


def console_link(bucket: str, key: str, region: str) -> str:
    """Return the page of an object in the console, for who may sign in there."""
    place = f"https://{region}.console.aws.amazon.com/s3/object/{quote(bucket, safe='')}"
    return f"{place}?region={region}&prefix={quote(key, safe='/')}"


def _state(checkpoint: Checkpoint, taken: Sequence[Alert]) -> str:
    """Another one with each change of a status, each action, and at the end. ASCII, as metadata
    must be.
    """
    return f"{checkpoint.sequence} {checkpoint.ended or 'running'} {len(taken)}"

"""``tocsin check --follow``: its lines, notifications and limits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from tocsin.cli.errors import CommandError
from tocsin.cli.output import note
from tocsin.evaluation import Publisher
from tocsin.events import StatusChange
from tocsin.judge import Findings, Following, Several
from tocsin.judge.command import StopCommand
from tocsin.tensors import WATCH, NotFound, RefusedFile, Storage
from tocsin.watch import BadWatch, Watch, parse_watch

_WATCH_BYTES = 1 << 20


@contextmanager
def notifying(
    run: str, texts: Sequence[str], mirrors: Sequence[str] = ()
) -> Iterator[list[Publisher]]:
    """Yield what sends to the targets of ``--notify`` and ``--mirror``; at the end of the block it
    sends what waits."""
    found: list[Publisher] = [*_mirrors(mirrors)]
    if not texts:
        yield found
        return
    from tocsin.judge.notify import Notifier
    from tocsin.judge.targets import target_of

    try:
        targets = [target_of(text) for text in texts]
    except ValueError as error:
        raise CommandError(str(error)) from None
    notifier = Notifier(run, targets, time.time, note)
    try:
        yield [*found, notifier]
    finally:
        notifier.close()


def _mirrors(texts: Sequence[str]) -> Iterator[Publisher]:
    if not texts:
        return
    from tocsin.judge.mirror import Mirror, mirror_of

    for text in texts:
        try:
            yield Mirror(mirror_of(text), note)
        except ValueError as error:
            raise CommandError(str(error)) from None


def following_of(
    storage: Storage,
    watch: Watch | None,
    now: Callable[[], float] = time.time,
    notifiers: Sequence[Publisher] = (),
    on_stop: str | None = None,
) -> Following:
    """Follow a run: report findings, and stop the training if a rule requests it.

    on_stop: a command that then runs, too.
    """
    command = StopCommand(on_stop, storage.url, note) if on_stop else None

    def stopping(alert: StatusChange) -> None:
        if command is not None:
            good = alert.last_good or None
            command(alert.rule_configuration_name, good.checkpoint if good else None)

    findings = Findings(storage, now, note, stopping)
    following = Following(storage, watch, now, publisher=Several([findings, *notifiers]))
    if actions := _not_taken(watch or _own(storage)):
        instead = "" if notifiers else "; --notify slack=URL sends messages"
        note(f"actions not taken without a deployment: {', '.join(actions)}; stop works{instead}")
    if not following.has_begun:
        note(f"waiting for the first step in {storage.url}")
    return following


def _own(storage: Storage) -> Watch:
    """Return the run's own watch file, or the default one until that can be used."""
    try:
        return parse_watch(storage.read(WATCH, limit=_WATCH_BYTES))
    except (NotFound, RefusedFile, BadWatch):
        return Watch()


def _not_taken(watch: Watch) -> list[str]:
    """The actions that a watch file names, but for the default ones and the stop."""
    own = () if watch.actions == Watch().actions else watch.actions
    of_rules = (action for rule in watch.rules or () for action in rule.actions or ())
    return [action for action in dict.fromkeys((*own, *of_rules)) if action != "stop"]

"""The faults: what each does wrong, and how it is put in.

``behaviour`` is what counts. Whoever moves or renames code restates ``file``, ``text`` and
``replacement`` so that the behaviour is the same, and leaves ``name`` as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

AWS = "rules_layer/tocsin/aws"
EVALUATION = "rules_layer/tocsin/evaluation"
ALERTS = "rules_layer/tocsin/alerts"
ACTIONS = "rules_layer/tocsin/actions"
TENSORS = "rules_layer/tocsin/tensors"
RULES = "rules_layer/tocsin/rules"
WATCH = "rules_layer/tocsin/watch"
TRIAL = "rules_layer/tocsin/trial"
HOOKS = "hooks/tocsin_hooks"


@dataclass(frozen=True)
class Fault:
    """One fault. ``text`` stands exactly once in ``file``; ``replacement`` takes its place.

    ``tests`` are files or folders, which run one after the other until a test fails. By default
    they are the unit tests of the room. A file in front of a folder only saves time. Faults in
    adapters name the room's integration tests.
    """

    room: str
    name: str
    behaviour: str
    file: str
    text: str
    replacement: str
    tests: tuple[str, ...] = ()

    @property
    def caught_by(self) -> tuple[str, ...]:
        """The tests that must catch it."""
        return self.tests or (f"tests/unit/{self.room}",)


_EVALUATION_AWS = ("tests/integration/test_evaluation_aws.py",)
_FOLD = ("tests/unit/evaluation/test_fold.py", "tests/unit/evaluation")
_LOOKING = ("tests/unit/evaluation/test_looking.py", "tests/unit/evaluation")
_HOOK = ("tests/unit/hooks/test_hook.py", "tests/unit/hooks")
_REACT = ("tests/unit/alerts/test_react.py", "tests/unit/alerts")

FAULTS = (
    # -- evaluation: lease, checkpoint, outbox ------------------------------------------------
    Fault(
        "evaluation",
        "lease-given-twice",
        "A lease that is still held is given to a second invocation.",
        f"{AWS}/coordination.py",
        "attribute_not_exists(lease_owner) OR lease_until < :now",
        "attribute_not_exists(lease_owner) OR lease_until > :now",
        _EVALUATION_AWS,
    ),
    Fault(
        "evaluation",
        "if-match-ignored",
        "A checkpoint is written over one that somebody else has committed meanwhile.",
        f"{AWS}/s3.py",
        '{"IfMatch": version}',
        "{}",
        _EVALUATION_AWS,
    ),
    Fault(
        "evaluation",
        "outbox-forgotten",
        "Status changes that a crash left unpublished are struck out, and never published.",
        f"{EVALUATION}/unit_of_work.py",
        "        work._publish()\n",
        "        work.replace(work.checkpoint.published())\n",
    ),
    Fault(
        "evaluation",
        "published-before-committed",
        "Status changes are published before the checkpoint that has them is committed.",
        f"{EVALUATION}/unit_of_work.py",
        "        self._version = self.ports.checkpoints.save(self._checkpoint, self._version)\n",
        "        if self._checkpoint.unpublished:\n"
        "            self.ports.publisher.publish(self._checkpoint.unpublished)\n"
        "        self._version = self.ports.checkpoints.save(self._checkpoint, self._version)\n",
    ),
    Fault(
        "evaluation",
        "change-ids-differ",
        "The same status change gets another DedupId each time that it is found.",
        "rules_layer/tocsin/events/fitting.py",
        "return hashlib.sha256(msgspec.json.encode(identity)).hexdigest()[:32]",
        'return __import__("uuid").uuid4().hex',
    ),
    Fault(
        "evaluation",
        "attempts-never-counted",
        "Attempts at a run that never finish are not counted, so that no step is given up.",
        f"{EVALUATION}/evaluator.py",
        "yields=yields, attempts=attempts, care=care",
        "yields=yields, attempts=1, care=care",
    ),
    # -- evaluation: steps, workers, restarts -------------------------------------------------
    Fault(
        "evaluation",
        "frontier-not-advanced",
        "The frontier stays where it is when a step has been evaluated.",
        f"{EVALUATION}/folding.py",
        "frontier=ready.step,",
        "frontier=checkpoint.frontier,",
    ),
    Fault(
        "evaluation",
        "frontier-past-a-gap",
        "Steps after one that still waits for a file are evaluated before it.",
        f"{EVALUATION}/planning.py",
        "            return StepPlan(ready, wake_at=due[step])\n",
        "            continue\n",
        _LOOKING,
    ),
    Fault(
        "evaluation",
        "grace-ignored",
        "A run that cannot tell what is missing is given no time for an older step to arrive.",
        f"{EVALUATION}/planning.py",
        "complete + GRACE_SECONDS",
        "complete",
        _LOOKING,
    ),
    Fault(
        "evaluation",
        "hold-never-ends",
        "A missing worker holds all later steps for much longer than a minute.",
        f"{EVALUATION}/planning.py",
        "give_up = earliest + HOLD_SECONDS",
        "give_up = earliest + 1000 * HOLD_SECONDS",
        _LOOKING,
    ),
    Fault(
        "evaluation",
        "restart-not-seen",
        "A job that starts again before the frontier is taken for the one that was evaluated.",
        f"{EVALUATION}/reconciliation.py",
        "find_restart(work, (*hint.keys, *partly_judged_files",
        "find_restart(work, (*partly_judged_files",
    ),
    Fault(
        "evaluation",
        "tick-ignored",
        "A tick is ignored when no new file has come with it.",
        f"{EVALUATION}/reconciliation.py",
        "(new.files or new.more or ticks or work.is_uncommitted)",
        "(new.files or new.more or work.is_uncommitted)",
    ),
    # -- evaluation: the fold ------------------------------------------------------------------
    Fault(
        "evaluation",
        "fired-rule-does-not-stay",
        "A rule without `resolve` is armed again by its first healthy evaluation.",
        f"{EVALUATION}/judging.py",
        "if options.resolve is None or record.healthy < options.resolve:",
        "if options.resolve is not None and record.healthy < options.resolve:",
        _FOLD,
    ),
    Fault(
        "evaluation",
        "resolve-ignored",
        "A rule that has fired stays so, however many healthy evaluations `resolve` asks for.",
        f"{EVALUATION}/judging.py",
        "healthy=record.healthy + 1)",
        "healthy=record.healthy)",
        _FOLD,
    ),
    Fault(
        "evaluation",
        "for-steps-off-by-one",
        "A rule fires one violation later than `for_steps` says.",
        f"{EVALUATION}/judging.py",
        "record.streak < rule.options.for_steps",
        "record.streak <= rule.options.for_steps",
        _FOLD,
    ),
    Fault(
        "evaluation",
        "state-cap-not-enforced",
        "A rule may remember as much as it likes.",
        f"{EVALUATION}/judging.py",
        "    if len(encoded) > STATE_BYTES:\n",
        "    if len(encoded) > 1000 * STATE_BYTES:\n",
        _FOLD,
    ),
    # -- alerts --------------------------------------------------------------------------------
    Fault(
        "alerts",
        "stages-swapped",
        "The stage that waits for group_wait stands before the one that finds what is new.",
        f"{ALERTS}/pipeline.py",
        "return inhibit, silence, dedup, wait",
        "return inhibit, silence, wait, dedup",
        _REACT,
    ),
    Fault(
        "alerts",
        "silence-does-not-hold-a-stop",
        "A job is stopped although a silence covers the rule.",
        f"{ALERTS}/pipeline.py",
        "return once, silence",
        "return (once,)",
        _REACT,
    ),
    Fault(
        "alerts",
        "repeat-interval-ignored",
        "What goes on firing is sent again at every look, before its repeat interval has passed.",
        f"{ALERTS}/timing.py",
        "repeat is not None and now >= sent.at + repeat",
        "repeat is not None and now >= sent.at",
    ),
    Fault(
        "alerts",
        "inhibition-silences-both",
        "Of two rules that inhibit each other neither is sent.",
        f"{ALERTS}/inhibit.py",
        "        reached.add(root)\n",
        "",
    ),
    Fault(
        "alerts",
        "critical-waits",
        "A critical alert waits for group_wait if one that is not critical is new beside it.",
        f"{ALERTS}/timing.py",
        "    if not any(\n        each.alert.severity is Severity.CRITICAL",
        "    if not all(\n        each.alert.severity is Severity.CRITICAL",
        _REACT,
    ),
    Fault(
        "alerts",
        "stop-guard-off-by-one",
        "The stop guard lets one job more be stopped than the deployment allows.",
        f"{AWS}/limits.py",
        "[-limit.most :]",
        "[-limit.most - 1 :]",
        ("tests/unit/aws/test_limits.py",),
    ),
    Fault(
        "alerts",
        "group-interval-ignored",
        "A rule that fires and resolves all the time is a message each time.",
        f"{ALERTS}/timing.py",
        "sent.at + _newest_policy(view).interval if sent.at else 0.0",
        "0.0",
        _REACT,
    ),
    Fault(
        "alerts",
        "resolution-overtakes-firing",
        "A resolution is sent while the firing before it has yet to be sent.",
        f"{ALERTS}/pipeline.py",
        "busy = {rule for task in view.group.unfinished",
        "busy = {rule for task in ()",
        _REACT,
    ),
    Fault(
        "alerts",
        "stop-waits-for-patrol",
        "Nobody looks after a stop that a crash left before the patrol does.",
        f"{ALERTS}/reaction.py",
        "            self._back_stop(group)\n",
        "",
        ("tests/faults/test_crashes_of_act.py",),
    ),
    Fault(
        "alerts",
        "group-is-not-due-for-its-tasks",
        "What a crash left waits for a message that may be lost.",
        f"{ALERTS}/group.py",
        "return [*wake, *(task.due_at for task in tasks)]",
        "return wake",
        ("tests/faults/test_crashes_of_act.py",),
    ),
    # -- actions -------------------------------------------------------------------------------
    Fault(
        "actions",
        "ownership-not-checked",
        "A job is stopped because it has the name of the run's folder, whose run it is not.",
        f"{ACTIONS}/stop.py",
        "if job is None or _owns(job, alert, lookups):",
        "if True:",
        ("tests/unit/actions/test_stop.py", "tests/unit/actions"),
    ),
    Fault(
        "actions",
        "any-checkpoint-relaunched",
        "A job is started again from a path that its definition does not lead to.",
        f"{ACTIONS}/next_job.py",
        "if not _outlives(job, plan.checkpoint):",
        "if False:",
        ("tests/unit/actions/test_next_job.py", "tests/unit/actions"),
    ),
    Fault(
        "actions",
        "relaunch-without-a-stop",
        "A job that somebody else has stopped is started again.",
        f"{ACTIONS}/relaunch.py",
        "if not (request.stopped or request.dry_run):",
        "if False:",
        ("tests/unit/actions/test_relaunch.py", "tests/unit/actions"),
    ),
    Fault(
        "actions",
        "dry-run-stops",
        "A dry run stops the job.",
        f"{ACTIONS}/dispatch.py",
        "planned = action(request, lookups, NO_EFFECTS)",
        "planned = action(request, lookups, effects)",
        ("tests/unit/actions/test_dispatch.py", "tests/unit/actions"),
    ),
    Fault(
        "actions",
        "recipient-not-checked",
        "A run's own watch.json may name recipients that the deployment does not allow.",
        f"{ACTIONS}/topic.py",
        "why = lookups.refuses(request.name, to)",
        "why = None",
    ),
    Fault(
        "actions",
        "sms-cap-ignored",
        "An SMS is sent although the month's cap is used up.",
        f"{ACTIONS}/topic.py",
        'if why := effects.reserve("sms", request.run, phones):',
        "if why := None:",
    ),
    Fault(
        "actions",
        "private-webhook-allowed",
        "A webhook is posted to a private address.",
        f"{AWS}/https.py",
        "return found.is_global and not found.is_multicast",
        "return not found.is_loopback and not found.is_multicast",
        ("tests/unit/aws/test_https_addresses.py", "tests/unit/aws"),
    ),
    Fault(
        "actions",
        "signature-missing",
        "A webhook whose endpoint has a secret is posted without its signature.",
        f"{ACTIONS}/endpoint.py",
        "    if endpoint.secret:\n",
        "    if False:\n",
        ("tests/integration/test_endpoints.py",),
    ),
    # -- tensors -------------------------------------------------------------------------------
    Fault(
        "tensors",
        "wrong-crc-accepted",
        "A record is read although its checksum is wrong.",
        f"{TENSORS}/event.py",
        '            raise Unreadable("checksum of the record is wrong")\n',
        "            pass\n",
        ("tests/unit/tensors/test_event.py", "tests/unit/tensors"),
    ),
    Fault(
        "tensors",
        "event-file-outside-the-run",
        "An index file may name an event file outside its run.",
        f"{TENSORS}/layout.py",
        "not _EVENT_NAME.fullmatch(name)",
        "not _EVENT_NAME.search(name)",
        ("tests/unit/tensors/test_layout.py", "tests/unit/tensors"),
    ),
    Fault(
        "tensors",
        "size-not-checked",
        "A file is read into memory although it is larger than the limit.",
        f"{TENSORS}/local.py",
        "            if limit is not None and size > limit:\n",
        "            if False:\n",
        ("tests/unit/tensors/test_local.py", "tests/unit/tensors"),
    ),
    Fault(
        "tensors",
        "nan-counted-as-finite",
        "Elements that are NaN count as finite.",
        f"{TENSORS}/moments.py",
        "wide[np.isfinite(wide)]",
        "wide[~np.isinf(wide)]",
        ("tests/unit/tensors/test_moments.py", "tests/unit/tensors"),
    ),
    # -- rules and watch -----------------------------------------------------------------------
    Fault(
        "rules",
        "unknown-parameter-taken",
        "A rule is built although its configuration names a parameter that it does not have.",
        f"{RULES}/_registry.py",
        '            raise BadRule(f"{name}: unknown parameter {key!r}: {hint}")\n',
        "            continue\n",
        ("tests/unit/rules/test_registry.py", "tests/unit/rules"),
    ),
    Fault(
        "rules",
        "threshold-the-wrong-way",
        "VanishingGradient fires for gradients above its threshold.",
        f"{RULES}/gradients/vanishing_gradient.py",
        "if ratio >= 1:",
        "if ratio <= 1:",
        ("tests/unit/rules/test_vanishing_gradient.py", "tests/unit/rules"),
    ),
    Fault(
        "watch",
        "half-a-silence-used",
        "A silence with a key that cannot be used holds back what the rest of it covers.",
        f"{WATCH}/parts.py",
        "        if len(found) == faults:\n",
        '        if fields.get("until"):\n',
        ("tests/unit/watch/test_parts.py", "tests/unit/watch"),
    ),
    # -- hooks and trial -----------------------------------------------------------------------
    Fault(
        "hooks",
        "raises-into-training",
        "A tensor that cannot be captured raises into the training.",
        f"{HOOKS}/guard.py",
        "            except Exception as error:",
        "            except OSError as error:",
        _HOOK,
    ),
    Fault(
        "hooks",
        "marker-after-an-exception",
        "A training that ends by an exception gets the end marker of one that is complete.",
        f"{HOOKS}/ending.py",
        "return None if clean else False",
        "return None",
        _HOOK,
    ),
    Fault(
        "hooks",
        "stale-stop-obeyed",
        "A stop request for an earlier start of the job stops the present one.",
        f"{HOOKS}/stop.py",
        "return self.run_id == run_id or when > started",
        "return self.run_id == run_id or when > 0",
        ("tests/unit/hooks/test_stop.py", "tests/unit/hooks"),
    ),
    Fault(
        "trial",
        "incomplete-steps-listed",
        "Steps for which a worker is still missing are listed as complete.",
        f"{TRIAL}/trial.py",
        "list(known) if show_incomplete_steps else self._catalog.complete_steps(mode)",
        "list(known)",
        ("tests/unit/trial/test_create.py", "tests/unit/trial"),
    ),
)

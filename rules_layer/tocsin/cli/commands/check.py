"""The command ``tocsin check`` and its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tocsin.cli.errors import INTERRUPTED, CommandError
from tocsin.cli.not_judged import exit_code
from tocsin.cli.options import (
    BaselineOption,
    CountedBy,
    Every,
    Json,
    Loss,
    MirrorOption,
    NotifyOption,
    OneTraining,
    ProfileOption,
    RuleFiles,
    RuleOption,
    RunArgument,
    WatchFile,
)
from tocsin.cli.output import answer, notes
from tocsin.model import Severity


def check(
    run: RunArgument,
    watch: WatchFile = None,
    rule: RuleOption = None,
    rule_files: RuleFiles = None,
    profile: ProfileOption = None,
    baseline: BaselineOption = None,
    loss: Loss = None,
    step: CountedBy = None,
    training: OneTraining = None,
    follow: Annotated[
        bool,
        typer.Option("--follow", help="Evaluate while the training writes the run, until its end."),
    ] = False,
    at_present: Annotated[
        bool,
        typer.Option("--now", help="Also report a run that has stalled."),
    ] = False,
    notify: NotifyOption = None,
    mirror: MirrorOption = None,
    on_stop: Annotated[
        str | None,
        typer.Option(
            metavar="COMMAND",
            help="With --follow: run this in a shell when a rule with the action stop fires.",
        ),
    ] = None,
    every: Every = False,
    fail_on: Annotated[
        Severity, typer.Option(help="The lowest severity that makes the exit code 1.")
    ] = Severity.INFO,
    junit_file: Annotated[
        Path | None,
        typer.Option("--junit", metavar="FILE", help="Also write the verdicts as JUnit XML."),
    ] = None,
    as_json: Json = False,
) -> int:
    """Evaluate rules over a whole run, with the same engine as on AWS.

    Without --watch and --rule, the run's own watch.json applies; without that, the rules of profile
    recommended. --rule adds rules to those of --watch, and replaces one of the same name. The watch
    file's custom_rules and the files of --rules are loaded.

    In --rule, a part without "=" adds to the list before it, as does a repeated key; "\\," is a
    comma within a value. It accepts parameters, engine options, name, include and exclude.

    --baseline adds the rule WorseThanBaseline, which compares the run with runs that are known to
    be good, in place of the watch file's baseline.

    RUN may also be a history of another tool: a folder of TensorBoard, MLflow, CatBoost, DVCLive
    or Weights & Biases, a table as CSV or JSON, or a log of lines with steps and losses. A line
    on stderr reports how it was read; --loss, --step and --training change that.

    Findings come first, causes before what they explain; the last line counts the other rules.
    With --json, not_judged lists rules that have judged no step: there is no loss, there are too
    few steps, or another tensor was not captured.

    --follow starts before or during the training, shows each rule when it fires, and writes
    STOP.json into the run if a rule with the action stop fires: the hook then stops the training.
    It takes no other actions. Ctrl-C ends the command, not the training.

    --on-stop also runs your command then, such as one that cancels the job of a cluster. The
    variables TOCSIN_RUN and TOCSIN_RULE name the run and the rule. {checkpoint} in the command,
    without quotes around it, is the last checkpoint before the first sign of the fault. If none is
    known, the command does not run, and a line on stderr says so.

    --notify sends firing and resolved rules with severity, numbers and advice, and applies the
    inhibition, silences and grouping of a deployment. --mirror writes each rule's status into a run
    of W&B, MLflow or TensorBoard.

    --junit is for CI: each rule is a test. A rule that fired with the severity of --fail-on or
    above is a failure, and one that judged no step is skipped.

    Exit code: 0 nothing found, 1 issues found, 2 the command or its input is wrong, a rule ended
    in Error, or nothing could be judged.

    \b
    Examples:
      tocsin check runs/j1
      tocsin check runs/j1 --follow --watch watch.yaml
      tocsin check runs/j1 --follow --notify slack=https://hooks.slack.com/services/…
      tocsin check runs/j1 --follow --watch watch.yaml --on-stop 'scancel $SLURM_JOB_ID'
      tocsin check s3://bucket/jobs/j1/debug-output --watch watch.yaml --json
      tocsin check mlruns/0/4f1c --loss objective
      tocsin check runs/smoke --baseline runs/main --fail-on warning
      tocsin check runs/smoke --fail-on warning --junit tocsin.xml
      tocsin check runs/j1 --rule ExplodingTensor:tensor_regex=^loss,^gradient
      tocsin check runs/j1 --rule VanishingGradient:threshold=1e-6,for_steps=1
      tocsin check runs/j1 --rules my_rules/ --rule MyRule:limit=3
      tocsin check runs/j1 --rule 'LossNotDecreasing:tensor_regex=^loss_\\d{1\\,2}$'
    """
    from functools import partial

    from tocsin.cli.check import check_document
    from tocsin.cli.place import baselines_at, steps_at, storage_of
    from tocsin.cli.verdicts import print_verdicts
    from tocsin.cli.watch_options import given_watch
    from tocsin.histories import Choices

    if (notify or mirror) and not follow:
        raise CommandError("--notify and --mirror require --follow")
    if on_stop and not follow:
        raise CommandError("--on-stop requires --follow")
    storage = storage_of(run, Choices(tuple(loss or ()), step, training), may_come=follow)
    steps = 0 if follow else steps_at(storage)
    good = baselines_at(baseline or ())
    given = given_watch(
        watch,
        rule or (),
        profile.value if profile else None,
        storage,
        rule_files or (),
        [each.url for each in good],
    )
    interrupted = False
    if follow:
        from tocsin.cli.following import following_of, notifying

        with notifying(storage.url, notify or (), mirror or ()) as notifiers:
            following = following_of(storage, given, notifiers=notifiers, on_stop=on_stop)
            try:
                following.until_end()
            except KeyboardInterrupt:  # the training goes on
                interrupted = True
        document, lines = following.document, following.report.log
    else:
        document, lines = check_document(storage, given, steps, tick=at_present, others=good)
    notes(lines)
    if junit_file is not None:
        from tocsin.cli.junit import junit

        junit_file.write_bytes(junit(document, fail_on))
    answer(document, partial(print_verdicts, every=every), as_json=as_json)
    return INTERRUPTED if interrupted else exit_code(document, fail_on)

"""The command ``tocsin watch``: a run, or a folder of runs, while trainings write."""

from __future__ import annotations

from typing import Annotated

import typer

from tocsin.cli.options import (
    CountedBy,
    Loss,
    MirrorOption,
    NotifyOption,
    ProfileOption,
    RuleFiles,
    RuleOption,
    RunArgument,
    WatchFile,
)


def watch(
    run: RunArgument,
    watch_file: WatchFile = None,
    rule: RuleOption = None,
    rule_files: RuleFiles = None,
    profile: ProfileOption = None,
    loss: Loss = None,
    step: CountedBy = None,
    web: Annotated[
        bool, typer.Option("--web", help="Serve the report's page on this machine instead.")
    ] = False,
    open_page: Annotated[
        bool, typer.Option("--open", help="With --web: open the page in your browser.")
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print a line of JSON for each event, until the run ends."),
    ] = False,
    until_idle: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="End when no step arrives for this long, such as 10m."),
    ] = None,
    notify: NotifyOption = None,
    mirror: MirrorOption = None,
    prometheus: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Serve metrics for Prometheus, such as at :9464."),
    ] = None,
    otlp: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Send metrics by OTLP, to http://HOST:4318/v1/metrics."),
    ] = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="With --web: the port; 0 means any free one.")
    ] = 0,
) -> int:
    """Watch a run while its training writes it.

    Start it before or during the training; it ends with the run. q or Ctrl-C ends the command only:
    watch writes nothing, takes no action and stops no training. Without a terminal, it prints a
    line for each rule that fires, fails or resolves.

    --notify sends firing and resolved rules, as tocsin check --follow does.

    --mirror writes the status of each rule into a run of W&B, MLflow or TensorBoard. --prometheus
    and --otlp export statuses, steps, losses and age while the command runs.

    --json writes each event of the run as a line, with the fields that it has on EventBridge:
    status changes as they come, and a summary at the end.

    --web serves the report's page on 127.0.0.1 until Ctrl-C, and updates it with new steps. For a
    folder of runs, the first page lists them.

    The rules are those of tocsin check, with the same options. RUN may also be a history of another
    tool that has begun, such as a live folder of TensorBoard: it has no end, so q, Ctrl-C or
    --until-idle ends the command.

    Exit code: 0 nothing found, or the command was ended; 1 issues found, 2 the command or its input
    is wrong, a rule ended in Error, or nothing could be judged.

    \b
    Examples:
      tocsin watch runs/j1
      tocsin watch s3://bucket/jobs/j1/debug-output --watch watch.yaml
      tocsin watch runs/j1 --json | jq .detail.RuleEvaluationStatus
      tocsin watch runs/ --web --open
      tocsin watch logs/fit --until-idle 30m
      tocsin watch runs/j1 --prometheus :9464 --mirror mlflow=RUN_ID
    """
    from tocsin.cli.errors import CommandError
    from tocsin.cli.following import notifying
    from tocsin.cli.live import watch_run
    from tocsin.cli.metrics import exporting
    from tocsin.cli.place import folder_of_runs, growing
    from tocsin.cli.run_view import RunWatch
    from tocsin.cli.watch_options import given_watch
    from tocsin.histories import Choices
    from tocsin.judge import Several
    from tocsin.parsing import seconds

    idle = None if until_idle is None else seconds(until_idle)
    if until_idle is not None and idle is None:
        raise CommandError(f"--until-idle {until_idle} is not a length of time: write 30s or 10m")
    if web and until_idle is not None:
        raise CommandError("--until-idle and --web: choose one")
    if not web and (open_page or port):
        raise CommandError("--open and --port require --web")
    if web and (prometheus or otlp):
        raise CommandError("--prometheus, --otlp and --web: run a second tocsin watch for the page")
    if web and as_json:
        raise CommandError("--json and --web: choose one")
    storage, refresh = growing(run, Choices(tuple(loss or ()), step))
    given = given_watch(
        watch_file, rule or (), profile.value if profile else None, storage, rule_files or ()
    )
    folder = folder_of_runs(run)
    if folder is not None and not web:
        raise CommandError(f"{run} is a folder of runs: name one of them, or use --web")
    if folder is not None and (notify or mirror):
        raise CommandError(
            f"{run} is a folder of runs: name one of them to use --notify or --mirror"
        )
    with (
        notifying(storage.url, notify or (), mirror or ()) as notifiers,
        exporting(prometheus, otlp) as export,
    ):
        watched = RunWatch(
            storage, given, refresh=refresh, publisher=Several(notifiers), on_view=export
        )
        if web:
            from tocsin.cli.web import WebServer, pages_of, serve

            return serve(WebServer(pages_of(folder, watched), port), run, open_page=open_page)
        return watch_run(watched, as_json=as_json, until_idle=idle)

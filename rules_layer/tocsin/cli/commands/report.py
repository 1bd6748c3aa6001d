"""The command ``tocsin report`` and its options."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tocsin.cli.display import styled
from tocsin.cli.errors import CommandError
from tocsin.cli.options import CountedBy, Json, Loss, OneTraining, RuleFiles
from tocsin.cli.output import Document

if TYPE_CHECKING:
    from rich.console import Console

    from tocsin.histories import Choices
    from tocsin.report import Page


def report(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN", help="Folders or s3://bucket/prefix; others are compared with the first."
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where to write the page.")
    ] = Path("report.html"),
    watch: Annotated[
        str | None, typer.Option(metavar="FILE", help="A watch file: YAML or JSON.")
    ] = None,
    rule_files: RuleFiles = None,
    loss: Loss = None,
    step: CountedBy = None,
    training: OneTraining = None,
    as_json: Json = False,
) -> int:
    """Write the report of a run: what happened, and why.

    FILE is one HTML file that opens in any browser and needs no network. A JSON file beside it has
    its data. The rules are those of tocsin check; further runs are compared with the first. --json
    prints where both files are, and the verdict. As in tocsin check, RUN may be a history of
    another tool.

    Exit code: 0 the page is written, 2 the command or its input is wrong. A run that cannot be
    judged has a page, too, which says what is missing.

    \b
    Examples:
      tocsin report runs/j1
      tocsin report runs/j1 runs/j2 -o compared.html
      tocsin report logs/fit wandb-export.csv --loss objective
      tocsin report s3://bucket/jobs/j1/debug-output -o j1.html --watch watch.yaml
    """
    import msgspec

    from tocsin.cli.output import answer
    from tocsin.histories import Choices
    from tocsin.report import compared, html_of, json_of

    beside = output.with_suffix(".json")
    if beside == output:
        raise CommandError(f"{output}: name a file that ends in .html; the JSON is written beside")
    if not output.parent.is_dir():
        raise CommandError(f"{output.parent}: no such folder")
    page = compared(
        [
            _page(run, watch, rule_files or (), Choices(tuple(loss or ()), step, training))
            for run in runs
        ]
    )
    output.write_text(html_of(page), "utf-8")
    beside.write_bytes(json_of(page))
    document = {
        "page": str(output),
        "data": str(beside),
        "run": page.run.url,
        "verdict": msgspec.to_builtins(page.verdict),
    }
    answer(document, _print_verdict, as_json=as_json)
    return 0


def _print_verdict(document: Document, console: Console) -> None:
    verdict = document["verdict"]
    for text in (verdict["sentence"], verdict["detail"], document["page"]):
        if text:
            console.print(styled(text), soft_wrap=True)


def _page(run: str, watch: str | None, rule_files: Sequence[str], choices: Choices) -> Page:
    from tocsin.cli.output import progress
    from tocsin.cli.place import steps_at, storage_of
    from tocsin.cli.watch_options import given_watch
    from tocsin.report import report_on

    storage = storage_of(run, choices)
    steps = steps_at(storage)
    given = given_watch(watch, (), None, storage, rule_files)
    done = count(1)
    with progress("evaluating and reading") as advance:
        advance(0, 2 * steps)
        return report_on(
            storage,
            given,
            on_step=lambda step: advance(next(done), 2 * steps),
            on_file=lambda files, total: advance(steps + steps * files // total, 2 * steps),
        )

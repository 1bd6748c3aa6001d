"""``tocsin profile``: exports the machine minutes of a job for other tools."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tocsin.cli.options import Json, RunArgument

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tocsin.tensors import IndexFile, Storage


def profile(
    run: RunArgument,
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a timeline to this file (JSON).")
    ] = None,
    reports: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the reports of Amazon's profiler rules (JSON)."),
    ] = None,
    smdebug: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the minutes as files of Amazon's profiler."),
    ] = None,
    as_json: Json = False,
) -> int:
    """Export a job's machine minutes for other tools.

    --trace writes how each minute was spent, metrics and findings, for ui.perfetto.dev or
    chrome://tracing. --reports writes a file for each of Amazon's profiler rules, with the keys of
    its ProfilerReport. --smdebug writes system metrics and steps for smdebug's readers. RUN is the
    training's run or its machine run.

    \b
    Examples:
      tocsin profile s3://bucket/jobs/j1/debug-output --trace j1.json
      tocsin profile runs/j1 --reports profiler-reports --smdebug profiler-output
    """
    from tocsin.cli.errors import CommandError
    from tocsin.cli.output import answer
    from tocsin.cli.place import machine_storage
    from tocsin.tensors import BadIndex, index_objects, read_index

    if trace is None and reports is None and smdebug is None:
        raise CommandError("choose what to write: --trace FILE, --reports DIR or --smdebug DIR")
    storage = machine_storage(run)
    minutes = []
    for found in index_objects(storage):
        with suppress(BadIndex):  # `tocsin check` says which and why
            minutes.append(read_index(storage, found))
    if not minutes:
        raise CommandError(
            f"{storage.url}: no machine minutes: add a section `machine` to the watch file"
        )
    nodes = sorted({minute.worker for minute in minutes})
    said: dict[str, object] = {"run": storage.url, "minutes": len(minutes), "nodes": nodes}
    lines = [f"{len(minutes)} minutes of {len(nodes)} machines"]
    if trace is not None:
        size = _write_timeline(storage, minutes, trace)
        said |= {"trace": str(trace), "bytes": size}
        lines.append(f"{trace}: {size / 1e6:.1f} MB; open it in ui.perfetto.dev")
    if reports is not None:
        count = _write_reports(storage, minutes, reports)
        said |= {"reports": str(reports)}
        lines.append(f"{reports}: the reports of {count} rules")
    if smdebug is not None:
        count = _write_files(minutes, smdebug)
        said |= {"smdebug": str(smdebug), "files": count}
        lines.append(f"{smdebug}: {count} files of system metrics and steps")
    answer(
        said,
        lambda _, console: console.print("\n".join(lines), soft_wrap=True),
        as_json=as_json,
    )
    return 0


def _write_timeline(storage: Storage, minutes: Sequence[IndexFile], path: Path) -> int:
    """Return how many bytes it has."""
    from tocsin.cli.output import note
    from tocsin.cli.timeline import encoded, timeline
    from tocsin.evaluation import check, document

    content, thin = timeline(minutes, document(check(storage)[0])["rules"], storage.url)
    data = encoded(content)
    path.write_bytes(data)
    if thin:
        note("too many samples for a viewer: metrics are means of minutes")
    return len(data)


def _write_reports(storage: Storage, minutes: Sequence[IndexFile], folder: Path) -> int:
    """Return how many there are."""
    import json

    from tocsin.evaluation import check, document
    from tocsin.profile import REPORTED, reports_of
    from tocsin.rules import rule_names
    from tocsin.watch import parse_watch

    known = [name for name in REPORTED if name in rule_names()]
    watch = parse_watch(json.dumps({"profile": "sagemaker", "rules": known}).encode())
    made = reports_of(minutes, document(check(storage, watch)[0])["rules"])
    folder.mkdir(parents=True, exist_ok=True)
    for name, report in made.items():
        text = json.dumps(report, indent=2, allow_nan=False)
        (folder / f"{name}.json").write_text(text, "utf-8")
    return len(made)


def _write_files(minutes: Sequence[IndexFile], folder: Path) -> int:
    """Return how many there are."""
    from tocsin.profile import write_amazon_files
    from tocsin.tensors import LocalStorage

    return write_amazon_files(minutes, LocalStorage(folder))

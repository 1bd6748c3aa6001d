"""``tocsin profile``: what is known of a job's machines, for other tools."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from tocsin.cli.options import Json, RunArgument


def profile(
    run: RunArgument,
    trace: Annotated[
        Path, typer.Option(metavar="FILE", help="Write a timeline to this file (JSON).")
    ],
    as_json: Json = False,
) -> int:
    """Write a timeline of a job's machines.

    It shows how each minute was spent, metrics, and findings. RUN is the training's run or its
    machine run. Open the file in ui.perfetto.dev or chrome://tracing.

    \b
    Example:
      tocsin profile s3://bucket/jobs/j1/debug-output --trace j1.json
    """
    from tocsin.cli.errors import CommandError
    from tocsin.cli.output import answer, note
    from tocsin.cli.place import machine_storage
    from tocsin.cli.trace import encoded
    from tocsin.cli.trace import trace as made
    from tocsin.evaluation import check, document
    from tocsin.tensors import BadIndex, index_objects, read_index

    storage = machine_storage(run)
    minutes = []
    for found in index_objects(storage):
        with suppress(BadIndex):  # `tocsin check` says which and why
            minutes.append(read_index(storage, found))
    if not minutes:
        raise CommandError(
            f"{storage.url}: no minute of a machine: has the watch file a section `machine`?"
        )
    rules = document(check(storage)[0])["rules"]
    content, thin = made(minutes, rules, storage.url)
    data = encoded(content)
    trace.write_bytes(data)
    if thin:
        note("too many samples for a viewer: metrics are means of minutes")
    nodes = sorted({minute.worker for minute in minutes})
    said = {"run": storage.url, "trace": str(trace), "minutes": len(minutes), "nodes": nodes}
    answer(
        {**said, "bytes": len(data)},
        lambda known, console: console.print(
            f"{trace}: {known['minutes']} minutes of {len(nodes)} machines, "
            f"{known['bytes'] / 1e6:.1f} MB; open it in ui.perfetto.dev"
        ),
        as_json=as_json,
    )
    return 0

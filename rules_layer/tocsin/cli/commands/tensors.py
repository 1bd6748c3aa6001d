"""``tocsin tensors``: the tensors of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tocsin.cli.options import Json, RunArgument
from tocsin.cli.output import answer, note, progress


def tensors(
    run: RunArgument,
    digest: Annotated[
        bool,
        typer.Option("--digest", help="Read all values and print their SHA-256 (with --json)."),
    ] = False,
    regex: Annotated[
        str | None, typer.Option(metavar="R", help="Only tensors whose names match.")
    ] = None,
    collection: Annotated[
        str | None, typer.Option(metavar="C", help="Only tensors of this collection.")
    ] = None,
    export_tensorboard: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Also export scalars and histograms for TensorBoard."),
    ] = None,
    as_json: Json = False,
) -> int:
    """List what was captured: the tensors of complete steps.

    --export-tensorboard writes scalars and histograms for TensorBoard.

    \b
    Examples:
      tocsin tensors runs/j1
      tocsin tensors runs/j1 --export-tensorboard boards/j1
      tocsin tensors s3://bucket/jobs/j1/debug-output --regex '^gradient' --json
    """
    from tocsin.cli.place import storage_of
    from tocsin.cli.tensors import print_tensors, saved_files, tensors_document
    from tocsin.tensors import export_tensorboard as write_tensorboard
    from tocsin.trial import snapshot

    storage = storage_of(run)
    found = snapshot(storage)
    with progress("reading") as advance:
        document = tensors_document(
            found, storage, digest=digest, regex=regex, collection=collection, advance=advance
        )
    if export_tensorboard is not None:
        with progress("exporting") as advance:
            several = len(found.workers()) > 1
            files = write_tensorboard(
                storage, saved_files(found, advance), export_tensorboard, by_worker=several
            )
        note(f"{len(files)} event files: see tensorboard --logdir {export_tensorboard}")
    answer(document, print_tensors, as_json=as_json)
    return 0

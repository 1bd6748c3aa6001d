"""The command ``tocsin trace`` and its options."""

from __future__ import annotations

from typing import Annotated

import typer

from tocsin.cli.options import Json, RunArgument


def trace(
    run: RunArgument,
    steps: Annotated[int, typer.Option(min=1, max=20, metavar="N", help="Steps to record.")] = 3,
    timeout: Annotated[
        str,
        typer.Option(metavar="TIME", help="How long to wait for the trace, such as 90s or 10m."),
    ] = "10m",
    as_json: Json = False,
) -> int:
    """Record a few steps of a running training with PyTorch's profiler.

    Asks the training's hook for a trace by writing TRACE.json into RUN, waits, and prints the path
    of the trace. Open it in ui.perfetto.dev; tocsin report shows how the GPU spent its time. The
    recorded steps take longer. The first worker makes at most one trace in 10 minutes, of at most
    50 MB.

    Exit code: 0 the trace is written, 2 there is none.

    \b
    Examples:
      tocsin trace s3://bucket/jobs/j1/debug-output
      tocsin trace runs/j1 --steps 5 --timeout 2m
    """
    import msgspec

    from tocsin.cli.errors import CommandError
    from tocsin.cli.output import answer, note, waiting
    from tocsin.cli.place import storage_of
    from tocsin.cli.step_trace import trace_of
    from tocsin.parsing import seconds
    from tocsin.tensors import is_machine_run

    if (limit := seconds(timeout)) is None:
        raise CommandError(f"--timeout {timeout}: write a time such as 90s or 10m")
    if is_machine_run(run):
        raise CommandError(f"{run} is a machine run: name the training's run beside it")
    storage = storage_of(run)
    with waiting(f"waiting for {steps} steps of the training"):
        made = trace_of(storage, steps, limit, note)
    url = f"{storage.url}/{made.key}"
    answer(
        {"run": storage.url, "trace": url, **msgspec.to_builtins(made)},
        lambda known, console: console.print(
            f"{url}: {made.bytes / 1e3:,.0f} kB; open it in ui.perfetto.dev", soft_wrap=True
        ),
        as_json=as_json,
    )
    return 0

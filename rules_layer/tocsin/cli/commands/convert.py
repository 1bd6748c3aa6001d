"""``tocsin convert``: a watch file in place of the rules of Amazon Debugger."""

from __future__ import annotations

from typing import Annotated

import typer

from tocsin.cli.options import Json
from tocsin.cli.output import answer, note


def convert(
    file: Annotated[
        str, typer.Argument(metavar="JOB.json", help="A training job as JSON; - reads stdin.")
    ],
    as_json: Json = False,
) -> int:
    """Turn the rules of an Amazon Debugger job into a watch file.

    The job is the answer of DescribeTrainingJob, or the request of CreateTrainingJob. The watch
    file goes to stdout. stderr has a line for everything that cannot be converted, and for each
    profiler rule of Amazon's that has a better alternative.

    \b
    Examples:
      tocsin convert job.json > watch.yaml
      aws sagemaker describe-training-job --training-job-name j1 | tocsin convert -
    """
    from tocsin.cli.convert import converted, print_watch

    document = converted(file)
    for line in document["not_taken_over"]:
        note(f"not converted: {line}")
    for line in document["better"]:
        note(f"better: {line}")
    answer(document, print_watch, as_json=as_json)
    return 0
